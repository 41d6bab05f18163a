"""Tools for developers of vitbench: tuning, and scripts for a machine with a GPU. Not part of the package."""
