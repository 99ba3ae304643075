"""The table of ATen ops: one row an op, shared by every way that PyTorch's graphs come in."""
