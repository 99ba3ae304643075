"""Weft inside PyTorch: modules made faster in place, and trained to be quantized.

The only folder that imports torch.
"""

from typing import TYPE_CHECKING

from weft.deferred import deferred

if TYPE_CHECKING:
    from weft.torch.deploy import deploy
    from weft.torch.explain import explain
    from weft.torch.module import optimize
    from weft.torch.qat.bit_widths import Budget
    from weft.torch.qat.conversion import convert
    from weft.torch.qat.prepare import prepare_qat
    from weft.torch.qat.training import bit_penalty, freeze_bits, qat_parameters, qat_summary
    from weft.torch.tracing import trace

__all__ = [
    "Budget",
    "bit_penalty",
    "convert",
    "deploy",
    "explain",
    "freeze_bits",
    "optimize",
    "prepare_qat",
    "qat_parameters",
    "qat_summary",
    "trace",
]

# The modules import torch, which takes seconds.
__getattr__ = deferred(
    __name__,
    {
        "Budget": "weft.torch.qat.bit_widths",
        "bit_penalty": "weft.torch.qat.training",
        "convert": "weft.torch.qat.conversion",
        "deploy": "weft.torch.deploy",
        "explain": "weft.torch.explain",
        "freeze_bits": "weft.torch.qat.training",
        "optimize": "weft.torch.module",
        "prepare_qat": "weft.torch.qat.prepare",
        "qat_parameters": "weft.torch.qat.training",
        "qat_summary": "weft.torch.qat.training",
        "trace": "weft.torch.tracing",
    },
)
