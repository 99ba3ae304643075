"""Winograd convolution: fewer multiplications on transformed tiles."""
