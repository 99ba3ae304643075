"""Quantization: graphs in floating point to standard graphs of QuantizeLinear and DequantizeLinear.

Schemes say which integers stand for numbers, calibrators find the range of what a network
computes, and ``insert_qdq`` writes both into a graph.
"""
