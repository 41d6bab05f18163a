"""Where images come from: one module a kind of source."""
