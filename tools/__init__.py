"""What developers of vitbench run: tuning, and scripts for a machine with a GPU. Not part of the package."""
