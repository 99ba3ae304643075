"""Configurations of layers, read field by field; every field must be understood or mean nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import RefusalError

_NEUTRAL = frozenset(
    "name trainable dtype rate momentum seed noise_shape batch_shape batch_input_shape stddev "
    "input_shape input_dtype sparse ragged optional implementation renorm_clipping "
    "renorm_momentum synchronized fused virtual_batch_size dropout recurrent_dropout input_length "
    "unit_forget_bias unroll shared_object_id flash_attention power_iterations "
    "activity_regularizer l1 l2 use_cudnn build_input_shape".split()
)
"""Fields that say nothing about what is computed in inference."""
_ENDS = ("_initializer", "_regularizer", "_constraint")


class Config:
    """The configuration of a layer.

    Args:
        fields: as in the file.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields
        self._read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """A field as it is."""
        self._read.add(name)
        return self.fields.get(name, default)

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self.fields.get(name) is not None

    def heed(self, *names: str) -> None:
        """Fields that mean nothing to this layer, whatever they hold."""
        self._read.update(names)

    def unread(self) -> list[str]:
        """Fields that may change what is computed and that nothing asked for."""
        return [
            f"{name}={str(value)[:60]}"
            for name, value in self.fields.items()
            if name not in self._read
            and name not in _NEUTRAL
            and not name.endswith(_ENDS)
            and value
        ]

    # --- fields of a kind --------------------------------------------------------------------

    def flag(self, name: str, default: bool = False) -> bool:
        """A field that is true or false."""
        found = self.get(name, default)
        if found is None:
            return default
        if not isinstance(found, bool | int):
            raise _wrong(name, "true or false", found)
        return bool(found)

    def size(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A field that is a whole number."""
        return _whole(name, self.get(name, default), least)

    def sizes(
        self, name: str, count: int, default: int | None = None, least: int = 1
    ) -> tuple[int, ...]:
        """A field that is a whole number for each axis, or one for all."""
        found = self.get(name, default)
        found = default if found is None else found
        given = [found] * count if not isinstance(found, list | tuple) else list(cast(Any, found))
        given = given * count if len(given) == 1 else given
        if len(given) != count:
            raise _wrong(name, f"{count} sizes", given)
        return tuple(_whole(name, each, least) for each in given)

    def numbers(self, name: str, least: int | None = None) -> tuple[int, ...]:
        """A field that is a list of whole numbers, or one number."""
        found = self.get(name)
        given = list(cast(Any, found)) if isinstance(found, list | tuple) else [found]
        return tuple(_whole(name, each, least) for each in given)

    def number(self, name: str, default: float | None = None) -> float:
        """A field that is a number."""
        found = self.get(name, default)
        if isinstance(found, dict):  # Keras 2 wrote arrays of rank 0 so
            found = cast(dict[str, Any], found).get("value")
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise _wrong(name, "a number", found)
        return float(found)

    def text(self, name: str, default: str = "", allowed: Sequence[str] = ()) -> str:
        """A field that is text, maybe one of a few."""
        found = self.get(name, default)
        found = default if found is None else found
        if not isinstance(found, str) or (allowed and found not in allowed):
            raise _wrong(name, " or ".join(allowed) or "text", found)
        return found

    def channels_first(self) -> bool:
        """Whether the field ``data_format`` puts channels before the image's axes."""
        kinds = ("channels_last", "channels_first")
        return self.text("data_format", "channels_last", kinds) == "channels_first"


def element_type(found: Any, *, compute: bool = False) -> DType:
    """The element type that a field ``dtype`` names: a type, or a policy.

    Args:
        found: the field.
        compute: whether to give the type that a policy of mixed precision computes in.
    """
    if isinstance(found, Mapping):
        policy: object = cast(Mapping[str, Any], found).get("config")
        fields = cast(dict[str, Any], policy) if isinstance(policy, dict) else dict[str, Any]()
        if fields.get("mode"):
            raise RefusalError(f"layers that Keras quantized ({fields['mode']}) are not supported")
        found = fields.get("name")
        if found is None:
            raise RefusalError("dtype must be a type or a policy with the name of one")
    name = str(found or "float32")
    if compute:
        name = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}.get(name, name)
    try:
        return DType.of(np.dtype(name))
    except (TypeError, KeyError, ValueError):
        raise RefusalError(
            f"dtype must be that of an array of numbers, but is {name[:40]}"
        ) from None


def _whole(name: str, found: object, least: int | None) -> int:
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if (
        isinstance(found, bool)
        or not isinstance(found, int)
        or (least is not None and found < least)
    ):
        raise _wrong(name, "a whole number" + (f" of at least {least}" if least else ""), found)
    if abs(found) > 1 << 40:
        raise _wrong(name, "a possible size", found)
    return found


def _wrong(name: str, rule: str, found: object) -> RefusalError:
    return RefusalError(f"{name} must be {rule}", got=str(found)[:80])
