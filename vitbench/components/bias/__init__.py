"""Components of the slot bias."""
