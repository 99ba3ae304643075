"""Random models by NNSmith, the published generator (https://github.com/ise-uiuc/nnsmith).

Its last release, 0.1.0, is older than PyTorch's new exporter, which is now the default of
``torch.onnx.export`` and cannot trace its modules; here it gets the one that it was made for.
"""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch  # pyright: ignore[reportMissingImports]
from onnx import helper, numpy_helper

from tests.fuzz.growing import Grown, Unfit, session_of

NODES = 8
ELEMENTS = 1 << 14
MILLISECONDS = 5000


def published() -> Callable[[int], Grown]:
    """The generator: a model of each seed."""
    torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
    os.environ.setdefault("XDG_CACHE_HOME", tempfile.mkdtemp())  # it keeps what PyTorch can do
    warnings.simplefilter("ignore")
    # The exporter comes first.
    from nnsmith.abstract.extension import activate_ext  # noqa: PLC0415 # pyright: ignore
    from nnsmith.graph_gen import model_gen  # noqa: PLC0415 # pyright: ignore
    from nnsmith.materialize import Model  # noqa: PLC0415 # pyright: ignore
    from nnsmith.narrow_spec import auto_opset  # noqa: PLC0415 # pyright: ignore

    kind = Model.init("onnx", backend_target="cpu")
    kind.add_seed_setter()
    opset: Any = auto_opset(kind, None, vulops=False)
    activate_ext(opset=opset, factory=None)

    def make(seed: int) -> Grown:
        made = model_gen(
            opset=opset,
            method="symbolic-cinit",
            seed=seed,
            max_elem_per_tensor=ELEMENTS,
            max_nodes=NODES,
            timeout_ms=MILLISECONDS,
        )
        model = kind.from_gir(made.make_concrete())
        try:
            model.refine_weights()
        except Exception as error:  # noqa: BLE001 (PyTorch cannot export all that it makes)
            raise Unfit(f"{type(error).__name__}: {str(error)[:100]}") from None
        return with_values(_with_initializers(model.native_model), seed)

    return make


def _with_initializers(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its constants apart from its nodes."""
    found = onnx.ModelProto.FromString(model.SerializeToString())
    del found.graph.node[:]
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensor = found.graph.initializer.add()
            tensor.CopyFrom(node.attribute[0].t)
            tensor.name = node.output[0]
        else:
            found.graph.node.append(node)
    return found


def with_values(model: onnx.ModelProto, seed: int) -> Grown:
    """A model with random inputs and every value that they lead to."""
    numbers = np.random.default_rng(seed)
    feeds: dict[str, np.ndarray] = {}
    for each in model.graph.input:
        shape = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type)
        feeds[each.name] = numbers.uniform(0, 2, shape).astype(dtype)
    whole = onnx.ModelProto.FromString(model.SerializeToString())
    del whole.graph.output[:]
    for node in model.graph.node:
        whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    names = [each.name for each in whole.graph.output]
    found: list[Any] = list(session_of(whole).run(names, feeds))
    values = dict(zip(names, found, strict=True))
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    return Grown(model, feeds, {**feeds, **constants, **values})
