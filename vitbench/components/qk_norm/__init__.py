"""Components of the slot qk_norm."""
