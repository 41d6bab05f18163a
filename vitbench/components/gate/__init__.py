"""Components of the slot gate."""
