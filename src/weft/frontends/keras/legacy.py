# pyright: basic
"""Functions of TensorFlow in models of Keras 2: ``TFOpLambda`` and ``SlicingOpLambda``.

Keras wrote the name of the function; only those of this table are known, and none is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.frontends.keras.record import OPERATIONS, Config, Emit, Made, Tensor, layer

KNOWN: dict[str, tuple[str, tuple[str, ...]]] = {
    **{
        f"{prefix}{name}": (kind, ("x", "y"))
        for prefix in ("math.", "")
        for name, kind in {
            "add": "Add", "subtract": "Subtract", "multiply": "Multiply", "divide": "Divide",
            "truediv": "Divide", "maximum": "Maximum", "minimum": "Minimum", "pow": "Power",
            "greater": "Greater", "greater_equal": "GreaterEqual", "less": "Less",
            "less_equal": "LessEqual", "equal": "Equal", "not_equal": "NotEqual",
            "logical_and": "LogicalAnd", "logical_or": "LogicalOr",
        }.items()
    },
    **{
        f"{prefix}{name}": (kind, ("x",))
        for prefix in ("math.", "", "nn.")
        for name, kind in {
            "abs": "Abs", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "rsqrt": "Rsqrt",
            "square": "Square", "tanh": "Tanh", "sigmoid": "Sigmoid", "negative": "Negative",
            "floor": "Floor", "ceil": "Ceil", "sign": "Sign", "erf": "Erf", "sin": "Sin",
            "cos": "Cos", "softplus": "Softplus", "reciprocal": "Reciprocal",
        }.items()
    },
    **{
        f"math.{name}": (kind, ("input_tensor", "axis", "keepdims"))
        for name, kind in {
            "reduce_sum": "Sum", "reduce_mean": "Mean", "reduce_max": "Max", "reduce_min": "Min",
            "reduce_prod": "Prod", "reduce_std": "Std", "reduce_variance": "Var",
            "reduce_logsumexp": "Logsumexp",
        }.items()
    },
    "__operators__.add": ("Add", ("x", "y")),
    "__operators__.radd": ("Add", ("y", "x")),
    "__operators__.sub": ("Subtract", ("x", "y")),
    "__operators__.mul": ("Multiply", ("x", "y")),
    "__operators__.truediv": ("Divide", ("x", "y")),
    "nn.relu": ("Relu", ("features",)),
    "nn.relu6": ("Relu6", ("features",)),
    "nn.silu": ("Silu", ("features",)),
    "nn.gelu": ("Gelu", ("features", "approximate")),
    "nn.elu": ("Elu", ("features",)),
    "nn.selu": ("Selu", ("features",)),
    "nn.softsign": ("Softsign", ("features",)),
    "nn.leaky_relu": ("LeakyRelu", ("features", "alpha")),
    "nn.softmax": ("Softmax", ("logits", "axis")),
    "nn.log_softmax": ("LogSoftmax", ("logits", "axis")),
    "math.l2_normalize": ("Normalize", ("x", "axis")),
    "nn.depth_to_space": ("DepthToSpace", ("input", "block_size")),
    "nn.space_to_depth": ("SpaceToDepth", ("input", "block_size")),
    "clip_by_value": ("Clip", ("t", "clip_value_min", "clip_value_max")),
    "cast": ("Cast", ("x", "dtype")),
    "concat": ("Concatenate", ("values", "axis")),
    "stack": ("Stack", ("values", "axis")),
    "reshape": ("Reshape", ("tensor", "shape")),
    "transpose": ("Transpose", ("a", "perm")),
    "expand_dims": ("ExpandDims", ("input", "axis")),
    "squeeze": ("Squeeze", ("input", "axis")),
    "tile": ("Tile", ("input", "multiples")),
    "identity": ("Identity", ("input",)),
    "stop_gradient": ("StopGradient", ("input",)),
    "linalg.matmul": ("Matmul", ("a", "b")),
    "broadcast_to": ("BroadcastTo", ("input", "shape")),
    "zeros_like": ("ZerosLike", ("input",)),
    "ones_like": ("OnesLike", ("input",)),
    "compat.v1.gather": ("Take", ("params", "indices", "axis")),
    "where": ("Where", ("condition", "x", "y")),
}  # fmt: skip
"""By name in TensorFlow: the operation of Keras, and the names of its arguments in order."""


@layer("TFOpLambda")
def function(g: Emit, c: Config, *args: Any, **kwargs: Any) -> Made:
    name = c.text("function")
    known = KNOWN.get(name)
    if known is None:
        g.refuse(f"tf.{name} is not supported")
    kind, parameters = known
    kwargs = {key: value for key, value in kwargs.items() if key != "name" and value is not None}
    given = [
        *args[: len(parameters)],
        *(kwargs.pop(each, None) for each in parameters[len(args) :]),
    ]
    if kwargs.get("approximate") is False and kind != "Gelu":
        kwargs.pop("approximate")
    if kwargs:
        g.refuse(f"tf.{name} with {next(iter(kwargs))} is not supported")
    while given and given[-1] is None:
        given.pop()
    if kind == "Normalize":
        # Below 1e-12 of the sum of squares.
        return OPERATIONS[kind](g, *given, epsilon=1e-6)
    if kind == "Gelu" and len(given) < 2:
        given.append(False)
    if kind in ("Sum", "Mean", "Max", "Min", "Prod", "Std", "Var", "Logsumexp") and len(given) > 2:
        return OPERATIONS[kind](g, given[0], axis=given[1], keepdims=bool(given[2]))
    return OPERATIONS[kind](g, *given)


@layer("SlicingOpLambda")
def slicing(g: Emit, c: Config, tensor: Tensor, slice_spec: Any, **kwargs: Any) -> Made:
    c.heed("function")
    items = slice_spec if isinstance(slice_spec, list | tuple) else [slice_spec]
    if isinstance(slice_spec, list) and any(isinstance(each, Tensor) for each in items):
        g.refuse("an index that is computed is not supported")
    return OPERATIONS["GetItem"](g, tensor, [_item(each) for each in items])


def _item(found: Any) -> Any:
    if isinstance(found, Mapping):
        if "start" in found or "stop" in found:
            return slice(found.get("start"), found.get("stop"), found.get("step"))
        if found.get("type") == "Ellipsis" or found.get("class_name") == "__ellipsis__":
            return Ellipsis
    return found
