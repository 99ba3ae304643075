"""Convolutions of bytes by vectors, from rows that are widened once."""
