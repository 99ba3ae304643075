# pyright: basic
"""Functions of TensorFlow in models of Keras 2: ``TFOpLambda`` and ``SlicingOpLambda``.

Keras wrote the name of the function; only those of this table are known, and none is executed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.frontends.keras.calls import leaves
from weft.frontends.keras.legacy_functions import FUNCTIONS, OF_SIZES, Function, element_type, whole
from weft.frontends.keras.operations import tensor
from weft.frontends.keras.record import OPERATIONS, Config, Emit, Tensor, layer

KNOWN: dict[str, tuple[str, tuple[str, ...]]] = {
    **{
        f"{prefix}{name}": (kind, ("x", "y"))
        for prefix in ("math.", "")
        for name, kind in {
            "add": "Add", "subtract": "Subtract", "multiply": "Multiply", "divide": "Divide",
            "truediv": "Divide", "maximum": "Maximum", "minimum": "Minimum", "pow": "Power",
            "greater": "Greater", "greater_equal": "GreaterEqual", "less": "Less",
            "less_equal": "LessEqual", "equal": "Equal", "not_equal": "NotEqual",
            "logical_and": "LogicalAnd", "logical_or": "LogicalOr", "logical_xor": "LogicalXor",
            "floordiv": "FloorDivide", "floormod": "Mod", "mod": "Mod",
            "divide_no_nan": "DivideNoNan",
        }.items()
    },
    **{
        f"{prefix}{name}": (kind, ("x",))
        for prefix in ("math.", "", "nn.")
        for name, kind in {
            "abs": "Abs", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "rsqrt": "Rsqrt",
            "square": "Square", "tanh": "Tanh", "sigmoid": "Sigmoid", "negative": "Negative",
            "floor": "Floor", "ceil": "Ceil", "sign": "Sign", "erf": "Erf", "sin": "Sin",
            "cos": "Cos", "tan": "Tan", "asin": "Arcsin", "acos": "Arccos", "atan": "Arctan",
            "sinh": "Sinh", "cosh": "Cosh", "asinh": "Arcsinh", "acosh": "Arccosh",
            "atanh": "Arctanh", "log1p": "Log1p", "expm1": "Expm1", "erfc": "Erfc",
            "log_sigmoid": "LogSigmoid", "softplus": "Softplus", "reciprocal": "Reciprocal",
            "round": "Round", "rint": "Round", "logical_not": "LogicalNot", "is_nan": "Isnan",
            "is_inf": "Isinf", "is_finite": "Isfinite",
        }.items()
    },
    **{
        f"math.{name}": (kind, ("input_tensor", "axis", "keepdims"))
        for name, kind in {
            "reduce_sum": "Sum", "reduce_mean": "Mean", "reduce_max": "Max", "reduce_min": "Min",
            "reduce_prod": "Prod", "reduce_std": "Std", "reduce_variance": "Var",
            "reduce_logsumexp": "Logsumexp", "reduce_any": "Any", "reduce_all": "All",
        }.items()
    },
    "__operators__.add": ("Add", ("x", "y")),
    "__operators__.radd": ("Add", ("y", "x")),
    "__operators__.sub": ("Subtract", ("x", "y")),
    "__operators__.mul": ("Multiply", ("x", "y")),
    "__operators__.truediv": ("Divide", ("x", "y")),
    "__operators__.floordiv": ("FloorDivide", ("x", "y")),
    "__operators__.mod": ("Mod", ("x", "y")),
    "compat.v1.floor_div": ("FloorDivide", ("x", "y")),
    "math.atan2": ("Arctan2", ("y", "x")),
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
    "identity": ("Identity", ("input",)),
    "stop_gradient": ("StopGradient", ("input",)),
    "zeros_like": ("ZerosLike", ("input",)),
    "ones_like": ("OnesLike", ("input",)),
    "where": ("Where", ("condition", "x", "y")),
}  # fmt: skip
"""By name in TensorFlow: the operation of Keras, and the names of its arguments in order."""
REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "Std", "Var", "Logsumexp", "Any", "All")
OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Subtract": np.subtract, "Multiply": np.multiply, "Divide": np.true_divide,
    "FloorDivide": np.floor_divide, "Mod": np.mod, "Maximum": np.maximum, "Minimum": np.minimum,
    "Cast": lambda x, dtype: np.asarray(x).astype(element_type(dtype)),
    "Stack": lambda values, axis=0: np.stack(values, axis),
    "Concatenate": lambda values, axis: np.concatenate(values, axis),
    "Prod": lambda x, axis=None, keepdims=False: np.prod(x, axis, keepdims=bool(keepdims)),
}  # fmt: skip
"""What is computed from sizes when the model is imported, by operation of Keras."""
MOST_KNOWN = 4096
"""Elements of an array that is computed with when the model is imported."""


@layer("TFOpLambda")
def function(g: Emit, c: Config, *args: Any, **kwargs: Any) -> Any:
    name = c.text("function")
    kwargs.pop("name", None)
    row = FUNCTIONS.get(name)
    if row is not None:
        bound = _bound(g, name, _parameters(row), args, kwargs)
        first = next(iter(bound), "")
        if isinstance(bound.get(first), np.ndarray) and name.split(".")[-1] not in OF_SIZES:
            bound[first] = tensor(g, bound[first])
        return row(g, **bound)
    known = KNOWN.get(name)
    if known is None:
        g.refuse(f"tf.{name} is not supported")
    kind, parameters = known
    bound = _bound(g, name, parameters, args, kwargs)
    given = [bound.get(each) for each in parameters]
    while given and given[-1] is None:
        given.pop()
    return _operation(g, kind, given)


def _as_tensors(g: Emit, nested: Any) -> Any:
    if isinstance(nested, list | tuple):
        return [_as_tensors(g, each) for each in nested]
    return tensor(g, nested) if isinstance(nested, np.ndarray) else nested


def _operation(g: Emit, kind: str, given: list[Any]) -> Any:
    """An operation of Keras with the arguments of TensorFlow's function."""
    if not any(isinstance(each, Tensor) for each in leaves(given)):
        arrays = [each for each in leaves(given) if isinstance(each, np.ndarray)]
        if kind in OF_NUMBERS and all(each.size <= MOST_KNOWN for each in arrays):
            return np.asarray(OF_NUMBERS[kind](*given))
        given = _as_tensors(g, given)
    if kind == "Normalize":
        # Below 1e-12 of the sum of squares.
        return OPERATIONS[kind](g, *given, epsilon=1e-6)
    if kind == "Gelu" and len(given) < 2:
        given.append(False)
    if kind in REDUCTIONS and len(given) > 2:
        return OPERATIONS[kind](g, given[0], axis=given[1], keepdims=bool(given[2]))
    return OPERATIONS[kind](g, *given)


@cache
def _parameters(row: Function) -> tuple[str, ...]:
    return tuple(inspect.signature(row).parameters)[1:]


def _bound(
    g: Emit, name: str, parameters: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by name: the first ones by their places, whatever their names are."""
    if len(args) > len(parameters):
        g.refuse(f"tf.{name} with {len(args)} arguments is not supported")
    bound = dict(zip(parameters, args, strict=False))
    for key, value in kwargs.items():
        if key in parameters:
            if value is not None:
                bound[key] = value
        elif value is not None and value is not False:
            g.refuse(f"tf.{name} with {key} is not supported")
    return bound


@layer("SlicingOpLambda")
def slicing(g: Emit, c: Config, tensor: Any, slice_spec: Any, **kwargs: Any) -> Any:
    c.heed("function")
    items = slice_spec if isinstance(slice_spec, list | tuple) else [slice_spec]
    if any(isinstance(each, Tensor) for each in leaves(items)):
        g.refuse("an index that is computed is not supported")
    key = [_item(each) for each in items]
    if isinstance(tensor, np.ndarray):
        return np.asarray(tensor[tuple(key)])
    return OPERATIONS["GetItem"](g, tensor, key)


def _item(found: Any) -> Any:
    if isinstance(found, Mapping):
        if "start" in found or "stop" in found:
            return slice(*(whole(found.get(each)) for each in ("start", "stop", "step")))
        if found.get("type") == "Ellipsis" or found.get("class_name") == "__ellipsis__":
            return Ellipsis
    return whole(found)
