"""Quantization-aware training: modules that compute with the rounding of integers and learn it."""
