"""Components of the slot mlp."""
