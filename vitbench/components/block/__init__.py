"""Components of the slot block."""
