"""Weft inside PyTorch: modules made faster in place.  The only folder that imports torch."""
