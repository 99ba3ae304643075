"""Weft: neural networks into plain, readable, dependency-free C for a named machine."""
