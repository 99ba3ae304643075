"""Generators: a fused group into a kernel."""
