"""Circumstances: what ran, how far it can be trusted, and how to run it again."""
