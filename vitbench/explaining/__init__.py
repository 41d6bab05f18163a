"""What there is to see of a trained model."""
