"""Components of the slot runtime."""
