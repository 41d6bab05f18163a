"""Components of the slot patching."""
