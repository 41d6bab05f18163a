"""Time one trial."""
