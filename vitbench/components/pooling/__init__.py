"""Components of the slot pooling."""
