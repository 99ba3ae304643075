"""Machine records from TOML files.

A file has the fields of ``Target`` as keys, their records as tables. With ``like = "NAME"``
it states only what differs from another target: keys of tables one by one, of memories those
that have a name in both. The keys of old files (``vector_bytes``, ``registers``, ``fused``,
``held``, ``caches``) are read, too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import MISSING, fields
from importlib.resources.abc import Traversable
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

from weft.errors import nearest
from weft.plugins import Unusable
from weft.targets.target import (
    FLAVOURS,
    HOLDS,
    KINDS,
    REACHES,
    Costs,
    Issue,
    Memory,
    Target,
    Vectors,
)

Record: TypeAlias = Target | Vectors | Issue | Costs | Memory
R = TypeVar("R", bound=Record)
Row: TypeAlias = dict[str, Any]
Find: TypeAlias = Callable[[str], Target | None]

_PARTS: Mapping[str, type[Vectors] | type[Issue] | type[Costs]] = MappingProxyType(
    {"Vectors": Vectors, "Issue": Issue, "Costs": Costs}
)
_OLD_VECTORS = {"vector_bytes": "bytes", "registers": "count", "fused": "fused", "held": "held"}
_NOT_IN_FILES = ("name", "core")


def read(
    name: str, file: Traversable, find: Find, why: Callable[[str], str] = lambda _: ""
) -> Target:
    """The target that a TOML file describes.

    Args:
        name: of the target.
        file: with its record.
        find: the target of a name, for ``like``.
        why: the reason why there is none of a name, if one is known.

    Raises:
        Unusable: it describes none; names the file and the key.
    """
    try:
        row = tomllib.loads(file.read_text(encoding="utf-8"))
        row = _renamed(row)
        like = row.pop("like", None)
        if like is not None:
            row = _merged(_stated(_base(like, name, find, why)), row)
        made = _made(Target, {**row, "name": name})
    except (OSError, ValueError) as error:  # broken TOML is a ValueError
        raise Unusable(f"{file.name}: {error}") from error
    wrong = problem(made)
    if wrong:
        raise Unusable(f"{file.name}: {wrong}")
    return made


_BY_NAME = ("operations", "instructions")
"""Tables of ``costs``."""
_chain: ContextVar[tuple[str, ...]] = ContextVar("chain", default=())
"""The targets that are being read, each ``like`` the next."""


def _base(like: object, name: str, find: Find, why: Callable[[str], str]) -> Target:
    rule = f"like must be the name of another target, but is {like!r}"
    if not isinstance(like, str) or like == name:
        raise ValueError(rule)
    chain = (*_chain.get(), name)
    if like in chain:
        raise ValueError(f"like must not form a cycle: {' -> '.join((*chain, like))}")
    token = _chain.set(chain)
    try:
        base = find(like)
        if base is None:
            raise ValueError(f"{rule}. {why(like)}".rstrip(". "))
    finally:
        _chain.reset(token)
    return base


def _renamed(row: Row) -> Row:
    """A row whose old keys stand where they belong."""
    old = {_OLD_VECTORS[key]: row.pop(key) for key in _OLD_VECTORS if key in row}
    if old:
        row["vectors"] = {**_table(row.get("vectors", {}), "vectors"), **old}
    if "caches" in row:
        levels = [
            {"name": f"L{level}", "bytes": size, "bytes_per_cycle": 32.0}
            for level, size in enumerate(_list(row.pop("caches"), "caches"), 1)
        ]
        far: Row = {"name": "DRAM", "kind": "ram", "reach": "shared", "bytes_per_cycle": 9.0}
        row["memories"] = [*levels, far] if levels else []
    return row


def _stated(target: Target) -> Row:
    """The row of a target, without what is its own."""
    row = _row(target)
    for part in _PARTS.values():
        row[part.__name__.lower()] = _row(row[part.__name__.lower()])
    row["costs"] |= {key: dict(getattr(target.costs, key)) for key in _BY_NAME}
    row["memories"] = [_row(each) for each in target.memories]
    return {key: value for key, value in row.items() if key not in (*_NOT_IN_FILES, "doc")}


def _row(record: Record) -> Row:
    return {each.name: getattr(record, each.name) for each in fields(record)}


def _merged(base: Row, row: Row) -> Row:
    """Keys of both, those of the second before those of the first."""
    found = dict(base)
    for key, value in row.items():
        if isinstance(base.get(key), dict):
            found[key] = _merged(base[key], _table(value, key))
        elif key == "memories":
            named = {each["name"]: each for each in base[key]}
            given = [_table(each, key) for each in _list(value, key)]
            found[key] = [{**named.get(each.get("name"), {}), **each} for each in given]
        else:
            found[key] = value
    return found


# --- values ---------------------------------------------------------------------------------


def _table(value: object, where: str) -> Row:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a table, but is {value!r}")
    return cast("Row", value)


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{where} must be a list, but is {value!r}")
    return list(cast("list[Any]", value))


def _made(record: type[R], row: Row, where: str = "") -> R:
    """A record from a table of its fields.

    Raises:
        ValueError: it is no such table; says which key is wrong.
    """
    known = {each.name: each for each in fields(record)}
    unknown = next((key for key in row if key not in known or where + key == "core"), None)
    if unknown is not None:
        keys = [key for key in known if where or key not in _NOT_IN_FILES]
        keys += [] if where else ["like"]
        meant = nearest(unknown, keys) or f"There are: {', '.join(keys)}."
        raise ValueError(f"{where}{unknown} means nothing. {meant}")
    for key, each in known.items():
        if each.default is MISSING and each.default_factory is MISSING and key not in row:
            raise ValueError(f"it lacks {where}{key}")
    return record(**{key: _value(str(known[key].type), row[key], where + key) for key in row})


def _value(kind: str, value: Any, where: str) -> Any:
    """What a field of a type is given.

    Raises:
        ValueError: the value has another type.
    """
    if kind in _PARTS:
        return _made(_PARTS[kind], _table(value, where), f"{where}.")
    match kind:
        case "tuple[Memory, ...]":
            rows = [_table(each, where) for each in _list(value, where)]
            return tuple(_made(Memory, row, f"{where}[{n}].") for n, row in enumerate(rows))
        case "tuple[str, ...]":
            return tuple(_value("str", each, where) for each in _list(value, where))
        case "tuple[tuple[str, float], ...]":
            costs = _table(value, where)
            return tuple((op, _value("float", costs[op], f"{where}.{op}")) for op in costs)
        case _:
            types, called = _SIMPLE[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
        raise ValueError(f"{where} must be {called}, but is {value!r}")
    return float(value) if kind == "float" else value


_SIMPLE: Mapping[str, tuple[tuple[type, ...], str]] = MappingProxyType(
    {
        "int": ((int,), "a whole number"),
        "float": ((int, float), "a number"),
        "bool": ((bool,), "true or false"),
        "str": ((str,), "a text"),
    }
)


# --- what cannot be -------------------------------------------------------------------------


def problem(made: Target) -> str:
    """What is impossible in a record; nothing if all is possible."""
    return next(
        chain(
            _of_vectors(made),
            _of_figures(made),
            _of_memories(made),
            _of_contents(made),
            _of_regions(made),
        ),
        "",
    )


def _of_vectors(made: Target) -> Iterator[str]:
    vectors = made.vectors
    if made.flavour not in FLAVOURS:
        yield f"flavour must be {', '.join(FLAVOURS)}, but is {made.flavour!r}"
    for key, value in (("bytes", vectors.bytes), ("executed", vectors.executed)):
        if value < 0 or value & (value - 1):
            yield f"vectors.{key} must be 0 or a power of two, but is {value}"
    if vectors.executed > vectors.bytes:
        yield f"vectors.executed must be at most vectors.bytes, but is {vectors.executed}"
    if vectors.count < 1:
        yield f"vectors.count must be at least 1, but is {vectors.count}"
    for key, value in (
        ("vectors.held", vectors.held),
        ("integers", made.integers),
        ("floats", made.floats),
        ("clock", made.clock),
        ("stack_limit", made.stack_limit),
    ):
        if value < 0:
            yield f"{key} must not be negative, but is {value}"


def _of_figures(made: Target) -> Iterator[str]:
    figures = {f"issue.{key}": value for key, value in _row(made.issue).items()}
    figures |= {f"costs.{key}": value for key, value in _row(made.costs).items()}
    for key in _BY_NAME:
        del figures[f"costs.{key}"]
        figures |= {f"costs.{key}.{name}": cost for name, cost in getattr(made.costs, key)}
    for key, value in figures.items():
        if not 0 < value < float("inf"):
            yield f"{key} must be positive, but is {value:g}"


def _of_regions(made: Target) -> Iterator[str]:
    for each in made.memories:
        if each.region and (each.kind != "ram" or not each.bytes or not each.name.isidentifier()):
            yield f"memory {each.name}: a region must be ram, with bytes, named by an identifier"


def _of_contents(made: Target) -> Iterator[str]:
    for number, each in enumerate(made.memories):
        for what in each.holds:
            if what not in HOLDS:
                where = f"memories[{number}].holds"
                yield f"{where} must be of {', '.join(HOLDS)}, but has {what!r}"


def _of_memories(made: Target) -> Iterator[str]:
    for number, each in enumerate(made.memories):
        where = f"memories[{number}]"
        if each.kind not in KINDS:
            yield f"{where}.kind must be {', '.join(KINDS)}, but is {each.kind!r}"
        if each.reach not in REACHES:
            yield f"{where}.reach must be {', '.join(REACHES)}, but is {each.reach!r}"
        if each.bytes < 0 or each.streams < 1 or not 0 <= each.bytes_per_cycle < float("inf"):
            yield f"{where}: bytes and rates must not be negative, and streams at least 1"
        if each.alignment < 1 or each.alignment & (each.alignment - 1):
            yield f"{where}.alignment must be a power of two, but is {each.alignment}"
        if each.kind == "cache" and not (each.bytes and each.bytes_per_cycle):
            yield f"{where}: a cache must have bytes and bytes_per_cycle"
    names = [each.name for each in made.memories]
    if len({*names}) < len(names):
        yield f"memories must have different names, but are {', '.join(names)}"
    caches = [each.bytes for each in made.memories if each.kind == "cache"]
    if caches != sorted(caches):
        yield "memories must be the nearest first, each cache no smaller than the one before"
    if made.caches and not (made.memories[-1].reach == "shared" and made.far and made.memory):
        yield "memories must end with one that is shared, with its bytes_per_cycle"
