"""Components of the slot norm."""
