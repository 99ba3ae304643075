"""Convolutions of bytes: windows, copies with borders, requantization."""
