"""Suite to trials to processes to records."""
