"""Components of the slot head."""
