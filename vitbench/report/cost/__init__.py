"""Cost: timings, training speed, and accuracy against them."""
