"""Smaller and damaged networks: pruning, low ranks, palettes, sparsity, faults."""
