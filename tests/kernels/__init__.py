"""Tests of vitbench.kernels."""
