"""Components of the slot positions."""
