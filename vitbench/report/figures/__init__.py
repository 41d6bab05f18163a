"""Figures: what is drawn, as data, and a few forms that draw it."""
