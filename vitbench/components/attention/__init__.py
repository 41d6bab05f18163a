"""Components of the slot attention."""
