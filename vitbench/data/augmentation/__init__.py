"""Augmentation: training images changed at random, each in its own way, all of a batch at once on its device."""
