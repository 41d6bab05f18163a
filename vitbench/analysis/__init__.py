"""Records to numbers and conclusions, without torch."""
