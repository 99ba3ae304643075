"""Variants of networks side by side."""
