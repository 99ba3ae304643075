"""Sums of products of integers: what they have in common, and tiles of one instruction."""
