"""What pictures show, as data: nothing here draws."""
