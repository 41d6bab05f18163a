"""Components of the slot residual."""
