"""Attention in one kernel: the scores of a few queries at a time."""
