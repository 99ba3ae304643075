"""Data classes whose methods are compiled when they are first needed.

For each data class the standard library writes up to six functions, and compiles every one of
them while the class is made.  For Weft's hundreds of classes that was half of the time that
importing them took.  Here most functions are shared, and the others are compiled when an object
is first made, compared or hashed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, field
from functools import partial
from reprlib import recursive_repr
from threading import RLock
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")
Scope = dict[str, Any]
"""What compiled functions see; its names begin with ``_weft``, as no field does."""
_UNSET: Any = object()
"""In place of an argument that is not given, and that a factory makes."""


@overload
def dataclass(kind: type[T], /) -> type[T]: ...


@overload
def dataclass(
    *,
    eq: bool = True,
    frozen: bool = False,
    kw_only: bool = False,
    repr: bool = True,
    slots: bool = False,
    unsafe_hash: bool = False,
) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    kind: type[Any] | None = None,
    /,
    *,
    eq: bool = True,
    frozen: bool = False,
    kw_only: bool = False,
    repr: bool = True,
    slots: bool = False,
    unsafe_hash: bool = False,
) -> Any:
    """``dataclasses.dataclass``, which takes a tenth of its time, without orders and ``InitVar``.

    The functions of ``dataclasses`` (``fields``, ``replace``, ``asdict``) take such classes.
    """

    def made(kind: type[Any]) -> type[Any]:
        own = set(vars(kind))
        # Where a class has its own `__eq__` and no `__hash__`, Python sets that to None.
        hashes = kind.__dict__.get("__hash__") is not None
        kind = _with_fields(kind, frozen, slots=slots, kw_only=kw_only)
        methods: dict[str, Any] = {"__init__": _Later(partial(_init, frozen=frozen, slots=slots))}
        if repr:
            methods["__repr__"] = _repr
        if eq:
            methods["__eq__"] = _Later(_eq)
        if frozen:
            methods |= _guards(kind)
            if slots:
                methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
        methods = {name: each for name, each in methods.items() if name not in own}
        if unsafe_hash or (eq and frozen and not hashes):
            methods["__hash__"] = _Later(_hash)
        elif eq and not hashes:
            methods["__hash__"] = None
        for name, method in methods.items():
            setattr(kind, name, method)
            if isinstance(method, _Later):
                method.__set_name__(kind, name)
        return kind

    return made if kind is None else made(kind)


_MAKING = RLock()
"""Around what changes classes that others may inherit, too."""


def _with_fields(kind: type[Any], frozen: bool, **how: bool) -> type[Any]:
    """A class with the fields of a data class, and without methods."""
    with _MAKING:
        inherited: list[Any] = [vars(each).get("__dataclass_params__") for each in kind.__mro__[1:]]
        bases = [each for each in inherited if each is not None]
        if any(each.frozen != frozen for each in bases):
            raise TypeError("a data class is frozen if those that it inherits are, and only then")
        # For the standard library it is not, or it would be given methods.
        for each in bases:
            each.frozen = False
        try:
            made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, **how)(kind)
        finally:
            for each in bases:
                each.frozen = frozen
        made.__dataclass_params__.frozen = frozen
        return made


class _Later:
    """A method that is compiled when somebody asks for it, and stands in its own place then."""

    def __init__(self, compiled: Callable[[type[Any]], Any]) -> None:
        self._compiled = compiled

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = self._compiled(self._owner)
        made.__name__ = self._name
        made.__qualname__ = f"{self._owner.__qualname__}.{self._name}"
        made.__module__ = self._owner.__module__
        setattr(self._owner, self._name, made)
        return made.__get__(instance, owner)


def _function(head: str, body: Sequence[str], scope: Scope) -> Any:
    exec("\n    ".join([f"def _weft{head}:", *(body or ["pass"])]), scope)
    return scope["_weft"]


def _init(kind: type[Any], frozen: bool, slots: bool) -> Any:
    scope: Scope = {"_weft_set": object.__setattr__, "_weft_unset": _UNSET}
    fields = dataclasses.fields(kind)
    body = list[str]()
    for each in fields:
        value = _initial(each, slots, scope)
        if not value:
            continue
        if not frozen:
            body.append(f"self.{each.name} = {value}")
        elif slots:
            # Faster than `object.__setattr__`, which looks for it.
            scope[f"_weft_set_{each.name}"] = getattr(kind, each.name).__set__
            body.append(f"_weft_set_{each.name}(self, {value})")
        else:
            body.append(f"_weft_set(self, {each.name!r}, {value})")
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    given = [each for each in fields if each.init]
    named = [_parameter(each) for each in given if each.kw_only]
    parameters = ["self", *(_parameter(each) for each in given if not each.kw_only)]
    parameters += ["*", *named] if named else []
    made = _function(f"({', '.join(parameters)})", body, scope)
    made.__annotations__ = {**{each.name: each.type for each in given}, "return": None}
    return made


def _initial(each: Field[Any], slots: bool, scope: Scope) -> str:
    """The value that an object has at first, in Python; empty if that of the class is it."""
    scope[f"_weft_default_{each.name}"] = each.default
    if each.default_factory is not MISSING:
        scope[f"_weft_make_{each.name}"] = each.default_factory
        made = f"_weft_make_{each.name}()"
        return f"{made} if {each.name} is _weft_unset else {each.name}" if each.init else made
    if each.init:
        return each.name
    # An object with slots does not see a value of its class.
    return f"_weft_default_{each.name}" if slots and each.default is not MISSING else ""


def _parameter(each: Field[Any]) -> str:
    if each.default_factory is not MISSING:
        return f"{each.name}=_weft_unset"
    return each.name if each.default is MISSING else f"{each.name}=_weft_default_{each.name}"


def _eq(kind: type[Any]) -> Any:
    names = [each.name for each in dataclasses.fields(kind) if each.compare]
    body = [
        "if other.__class__ is self.__class__:",
        f"    return {_tuple('self', names)} == {_tuple('other', names)}",
        "return NotImplemented",
    ]
    return _function("(self, other)", body, {})


def _hash(kind: type[Any]) -> Any:
    fields = dataclasses.fields(kind)
    names = [each.name for each in fields if (each.compare if each.hash is None else each.hash)]
    return _function("(self)", [f"return hash({_tuple('self', names)})"], {})


def _tuple(of: str, names: Sequence[str]) -> str:
    return f"({''.join(f'{of}.{name}, ' for name in names)})"


def _guards(kind: type[Any]) -> dict[str, Any]:
    """What refuses to change fields."""
    fields = frozenset(each.name for each in dataclasses.fields(kind))

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is kind or name in fields:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is kind or name in fields:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(kind, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [each.name for each in dataclasses.fields(self) if each.repr]
    text = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{self.__class__.__qualname__}({text})"


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
