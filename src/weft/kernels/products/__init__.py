"""Sums of products in register tiles: convolutions and matrix products."""
