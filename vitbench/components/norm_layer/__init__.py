"""Components of the slot norm_layer."""
