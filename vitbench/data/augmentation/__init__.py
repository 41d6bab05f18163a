"""Augmentation: random changes of training images, drawn per image, computed for a whole batch on its device."""
