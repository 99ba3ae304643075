# pyright: basic
"""PyTorch's version, for what its older ones cannot do."""

import torch

PYTORCH = tuple(int(number) for number in torch.__version__.split(".")[:2])
"""Major and minor number."""
