"""Pages: the text of a report as a browser shows it."""
