"""Components of the slot reduction."""
