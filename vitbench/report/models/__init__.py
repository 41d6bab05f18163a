"""Models: what is seen of what was trained."""
