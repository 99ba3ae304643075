"""The static types of op functions: ``src/weft/ops/__init__.pyi``, from the records."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field
from typing import Any, get_args, get_origin

from weft.dtypes import DType
from weft.ops.functions import Caller
from weft.ops.table import OPS

_NOTE = "# Written by scripts/docs.py from the op table; do not edit.\n"
_HEAD = '''"""The op table, and every op as a function: ``weft.ops.conv(x, w, strides=(2, 2))``."""

from collections.abc import Sequence
from typing import Literal, overload

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ir.types import Symbol
from weft.ops.values import Input, Value
'''


def _hint(hint: Any) -> str:
    """How an attribute's type is written: as wide as what is accepted."""
    if get_origin(hint) is tuple:
        return f"Sequence[{_hint(get_args(hint)[0])}]"
    if get_args(hint):
        return " | ".join(_hint(each) for each in get_args(hint))
    if hint is DType:
        return "DType | str | np.dtype | type"
    return "None" if hint is type(None) else hint.__name__


def _attribute(field: Field[Any], hint: Any) -> str:
    text = f"{field.name}: {_hint(hint)}"
    if field.default is MISSING:
        return text
    default = field.default
    return (
        f"{text} = {f'DType.{default.name}' if isinstance(default, DType) else _literal(default)}"
    )


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _parameters(caller: Caller) -> list[str]:
    found: list[str] = []
    for param in caller.op.inputs:
        if param.variadic:
            found.append(f"*{param.name}: Input | Sequence[Input]")
        else:
            found.append(f"{param.name}: Input" + (" | None = None" if param.optional else ""))
    by_name = {each.name: each for each in caller.attributes}
    if not caller.positional and not caller.variadic:
        found.append("*")
    found += [
        _attribute(by_name[name], caller.hints[name])
        for name in caller.signature.parameters
        if name in by_name
    ]
    if caller.positional:
        found.append("*")
    return found


def _results(caller: Caller) -> Iterator[tuple[str, str]]:
    """The parameter ``outputs`` and what is returned, one pair for each overload."""
    outputs = caller.op.outputs
    if outputs[-1].variadic:
        yield "outputs: int = 0", "tuple[Value, ...]"
    elif not caller.counted:
        yield "", "Value" if len(outputs) == 1 else f"tuple[{', '.join(['Value'] * len(outputs))}]"
    elif any(not param.optional for param in outputs):
        yield "outputs: Literal[0, 1] = 0", "Value"
        yield "outputs: int", "tuple[Value, ...]"
    else:
        yield "outputs: int = 0", "tuple[Value, ...]"


def _function(caller: Caller, count: str, result: str, overloaded: bool) -> str:
    parameters = [*_parameters(caller), *([count] if count else []), 'name: str = ""']
    lines = ["@overload"] if overloaded else []
    lines += [f"def {caller.word}(", *(f"    {each}," for each in parameters), f") -> {result}:"]
    doc = textwrap.wrap(f'"""{caller.op.doc}', 92)
    if len(doc) == 1:
        lines.append(f'    {doc[0]}"""')
    else:
        lines += [*(f"    {each}" for each in doc), '    """']
    return "\n".join(lines)


def stub() -> Iterator[str]:
    """The file, piece by piece."""
    yield f"{_NOTE}\n{_HEAD}".rstrip("\n")
    for caller in sorted(map(Caller, OPS.builtin.values()), key=lambda each: each.word):
        results = list(_results(caller))
        for count, result in results:
            yield _function(caller, count, result, len(results) > 1)
