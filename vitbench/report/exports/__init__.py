"""Exports: a report for papers and trackers."""
