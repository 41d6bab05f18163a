"""Comparisons: studies side by side."""
