# pyright: basic
"""Calls of layers, as the versions of Keras write them: which tensors, which other arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from weft.frontends.emit import RefusalError, Tensor
from weft.frontends.keras.hdf5 import broken
from weft.records import dataclass


@dataclass(frozen=True)
class Ref:
    """A tensor: an output of a call of a layer.

    Attributes:
        layer: its name.
        call: which of its calls.
        output: which of the outputs.
    """

    layer: str
    call: int
    output: int


@dataclass(frozen=True)
class Call:
    """A call of a layer; the arguments hold ``Ref`` for tensors."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def refs(self) -> list[Ref]:
        """The tensors that it takes."""
        return [each for each in leaves((self.args, dict(self.kwargs))) if isinstance(each, Ref)]


def leaves(nested: Any) -> Iterator[Any]:
    """What nested lists and mappings hold, mappings in the order of their keys, as in Keras."""
    if isinstance(nested, Mapping):
        for key in sorted(nested, key=str):
            yield from leaves(nested[key])
    elif isinstance(nested, list | tuple):
        for each in nested:
            yield from leaves(each)
    else:
        yield nested


def replaced(nested: Any, change: Callable[[Ref], Tensor]) -> Any:
    """Nested arguments with tensors for references."""
    if isinstance(nested, Ref):
        return change(nested)
    if isinstance(nested, list):
        return [replaced(each, change) for each in nested]
    if isinstance(nested, tuple):
        return tuple(replaced(each, change) for each in nested)
    if isinstance(nested, dict):
        return {key: replaced(each, change) for key, each in nested.items()}
    return nested


def call_of(node: Any) -> Call:
    """One call, in either form.

    Keras 3 writes positional and named arguments, with tensors as objects; Keras 2 a list of
    tensors, each ``[layer, call, output]`` and the named arguments of the first one.
    """
    if isinstance(node, Mapping):
        args, kwargs = node.get("args", []), node.get("kwargs", {})
        if not isinstance(args, list) or not isinstance(kwargs, Mapping):
            raise broken("a call without arguments")
        return Call(
            tuple(_value(each) for each in args),
            {key: _value(each) for key, each in kwargs.items()},
        )
    if not isinstance(node, list) or not node:
        raise broken("a call without arguments")
    if isinstance(node[0], str):
        node = [node]
    refs = [_given(each) for each in node]
    first = node[0]
    while first and isinstance(first[0], list):
        first = first[0]
    kwargs = first[3] if len(first) > 3 and isinstance(first[3], Mapping) else {}
    return Call(
        (refs[0] if len(refs) == 1 else refs,), {key: _legacy(each) for key, each in kwargs.items()}
    )


def _given(found: Any) -> Any:
    """A tensor of a call of Keras 2, a constant in its place, or a list of such."""
    if isinstance(found, list) and found and isinstance(found[0], list):
        return [_given(each) for each in found]
    if isinstance(found, list) and len(found) > 2 and found[0] == "_CONSTANT_VALUE":
        return _value(found[2])
    return ref_of(found)


def ref_of(found: Any) -> Ref:
    """A reference of three parts."""
    if not isinstance(found, list | tuple) or len(found) < 3 or not isinstance(found[0], str):
        raise broken(f"a tensor that is {str(found)[:60]}")
    call, output = found[1], found[2]
    if not isinstance(call, int) or not isinstance(output, int) or call < 0 or output < 0:
        raise broken(f"a tensor that is {str(found)[:60]}")
    return Ref(found[0], call, output)


def refs_of(nested: Any) -> list[Ref]:
    """The references in ``input_layers`` or ``output_layers``: one, a list, or by names."""
    if isinstance(nested, Mapping):
        return [each for key in sorted(nested, key=str) for each in refs_of(nested[key])]
    if isinstance(nested, list) and nested and isinstance(nested[0], str):
        return [ref_of(nested)]
    if isinstance(nested, list):
        return [each for one in nested for each in refs_of(one)]
    raise broken(f"a list of tensors that is {str(nested)[:60]}")


def _legacy(value: Any) -> Any:
    """An argument of Keras 2, where ``["conv", 0, 0]`` is a tensor."""
    if isinstance(value, list):
        if (
            len(value) in (3, 4)
            and isinstance(value[0], str)
            and all(isinstance(each, int) and not isinstance(each, bool) for each in value[1:3])
        ):
            return ref_of(value)
        if len(value) == 2 and value[0] == "_CONSTANT_VALUE":
            return value[1]
        return [_legacy(each) for each in value]
    if isinstance(value, Mapping):
        if value.get("class_name") is not None or value.get("type") is not None:
            return _value(value)
        return {key: _legacy(each) for key, each in value.items()}
    return value


def _value(value: Any) -> Any:
    """An argument of Keras 3, with the objects that it writes for tensors, slices and arrays."""
    if isinstance(value, list):
        return [_value(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    kind = value.get("class_name")
    inner = value.get("config", value)
    if kind is None:
        return {key: _value(each) for key, each in value.items()}
    if kind == "__keras_tensor__" and isinstance(inner, Mapping):
        return ref_of(inner.get("keras_history"))
    if kind == "__slice__" and isinstance(inner, Mapping):
        return slice(*(_value(inner.get(each)) for each in ("start", "stop", "step")))
    if kind == "__ellipsis__":
        return Ellipsis
    if kind in ("__numpy__", "__tensor__") and isinstance(inner, Mapping):
        return _array(inner)
    if kind == "__tuple__":
        return tuple(_value(each) for each in value.get("items", ()))
    return dict(value)


def _array(found: Mapping[str, Any]) -> np.ndarray:
    dtype = str(found.get("dtype", "float32"))
    if dtype == "bfloat16":
        return np.asarray(found.get("value"), np.float32).astype(ml_dtypes.bfloat16)
    if not dtype.startswith(("float", "int", "uint", "bool")):
        raise RefusalError(f"a constant of type {dtype[:20]} is not supported")
    return np.asarray(found.get("value"), dtype)


def indices(items: Any) -> Sequence[Any]:
    """The items between the brackets of ``x[...]``."""
    return items if isinstance(items, list | tuple) else (items,)
