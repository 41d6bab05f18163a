"""Fused kernels, checked against plain PyTorch. The only place in the package that imports triton."""
