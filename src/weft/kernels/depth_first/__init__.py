"""Chains of layers run by bands of rows."""
