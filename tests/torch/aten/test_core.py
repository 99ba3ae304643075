# pyright: basic
"""Which of PyTorch's core ATen ops have rows."""

import torch

import weft.torch.aten.rows  # noqa: F401
from weft.torch.aten.record import COMPLEX, TABLE

GRADIENTS = """
_adaptive_avg_pool2d_backward.default avg_pool2d_backward.default convolution_backward.default
embedding_dense_backward.default max_pool2d_with_indices_backward.default
native_group_norm_backward.default native_layer_norm_backward.default
""".split()
SIZES = """
sym_is_contiguous.default sym_numel.default sym_size.int sym_storage_offset.default sym_stride.int
""".split()
"""Numbers, which are known when a graph is imported."""
DATA = "_local_scalar_dense.default nonzero.default resize_.default".split()
"""Python numbers, and sizes, that depend on data or on what memory held before."""
OUT = ["atan2.out"]
"""Never in graphs that ``torch.export`` gives."""


def test_all_core_ops_have_rows_that_inference_on_known_shapes_needs():
    core: set[str] = set()
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
        if namespace == "aten" and op is not None and torch.Tag.core in op.tags:
            core.add(f"{packet}.{overload or 'default'}")
    assert len(core) > 150
    # Older versions have fewer.
    assert core - {*TABLE, *COMPLEX} == core & {*GRADIENTS, *SIZES, *DATA, *OUT}
