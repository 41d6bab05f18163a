"""The images, on the device."""
