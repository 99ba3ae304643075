"""Convolutions and pooling of bytes for Helium."""
