"""Maps and rows: kernels without products."""
