"""Every op as a Python function, made from its record.

``weft.ops.conv(x, w, b, strides=(2, 2))``: inputs by position or by name, attributes by name
(by position, too, where no input is optional), ``name`` of the node, and ``outputs``, how many
values are wanted, where some are optional.  Static types of all of this stand in
``weft/ops/__init__.pyi``, which ``scripts/docs.py`` writes from the same records.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from inspect import Parameter, Signature
from types import MappingProxyType
from typing import Any, cast, get_type_hints

from weft.cached import cached_property
from weft.errors import UserError, nearest
from weft.ops.coerce import coerced, described
from weft.ops.record import Op, Param
from weft.ops.table import OPS
from weft.ops.values import Input, Value, apply, as_values
from weft.plugins.discover import Kind, of_kind
from weft.records import dataclass

# As the frameworks call them.
_NAMES = {
    "ArgMax": "argmax",
    "ArgMin": "argmin",
    "Col2Im": "col2im",
    "CumProd": "cumprod",
    "CumSum": "cumsum",
    "IsInf": "isinf",
    "IsNaN": "isnan",
    "MatMul": "matmul",
    "MatMulInteger": "matmul_integer",
    "PRelu": "prelu",
    "QLinearConv": "qlinear_conv",
    "QLinearMatMul": "qlinear_matmul",
    "TopK": "topk",
    "TopKIndices": "topk_indices",
}
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")


def function_name(op: str) -> str:
    """What an op's function is called: ``conv_transpose`` for ``ConvTranspose``."""
    name = _NAMES.get(op) or _HUMPS.sub("_", op).lower()
    return f"{name}_" if keyword.iskeyword(name) else name


@dataclass(frozen=True)
class Arguments:
    """A call's arguments, sorted."""

    inputs: tuple[Input | None, ...]
    attributes: Mapping[str, Any]
    outputs: int
    name: str


@dataclass(frozen=True)
class Caller:
    """What an op's function does with its arguments.

    Attributes:
        op: the op's record.
    """

    op: Op

    @property
    def word(self) -> str:
        """The function's name."""
        return function_name(self.op.name)

    @cached_property
    def attributes(self) -> tuple[Field[Any], ...]:
        """The fields of the attribute class."""
        return fields(self.op.attributes)

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        """The attributes' types."""
        return get_type_hints(self.op.attributes)

    @property
    def variadic(self) -> bool:
        """Whether any number of inputs is taken."""
        return bool(self.op.inputs) and self.op.inputs[-1].variadic

    @property
    def positional(self) -> bool:
        """Whether attributes may be given by position."""
        return not any(param.optional or param.variadic for param in self.op.inputs)

    @property
    def single(self) -> bool:
        """Whether a call for one output gives it alone, not in a tuple."""
        first, last = self.op.outputs[0], self.op.outputs[-1]
        return not first.optional and not last.variadic

    @property
    def counted(self) -> bool:
        """Whether callers may say how many outputs they want."""
        return any(param.optional or param.variadic for param in self.op.outputs)

    @cached_property
    def signature(self) -> Signature:
        """For ``help`` and ``inspect``."""
        kind = Parameter.POSITIONAL_OR_KEYWORD if self.positional else Parameter.KEYWORD_ONLY
        attributes = [
            Parameter(each.name, kind, default=_default(each), annotation=self.hints[each.name])
            for each in self.attributes
        ]
        # Required attributes first: Python wants it so where they stand by position.
        attributes.sort(key=lambda each: each.default is not Parameter.empty)
        more = [Parameter("outputs", Parameter.KEYWORD_ONLY, default=0, annotation=int)]
        last = Parameter("name", Parameter.KEYWORD_ONLY, default="", annotation=str)
        inputs = [_input_parameter(param) for param in self.op.inputs]
        return Signature([*inputs, *attributes, *(more if self.counted else []), last])

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Apply the op; a value, or a tuple if the op has several outputs."""
        arguments = self._sorted(given, named)
        where = f"node {arguments.name}" if arguments.name else ""
        values: dict[str, Any] = {}
        for each in self.attributes:
            if each.name in arguments.attributes:
                found = arguments.attributes[each.name]
                values[each.name] = self._attribute(each.name, found, where)
            elif _default(each) is Parameter.empty:
                raise self._error(
                    f"attribute {each.name} is required, {described(self.hints[each.name])}",
                    where=where,
                )
        attributes = self.op.attributes(**values)
        inputs = as_values(self.word, arguments.inputs)
        made = apply(self.op, inputs, attributes, arguments.outputs, arguments.name)
        return made[0] if len(made) == 1 and self.single else made

    def _attribute(self, name: str, value: object, where: str) -> Any:
        hint = self.hints[name]
        try:
            return coerced(hint, value)
        except (TypeError, ValueError, OverflowError):
            raise self._error(
                f"attribute {name} must be {described(hint)}", got=repr(value), where=where
            ) from None

    # --- sorting arguments ------------------------------------------------------------------

    def _sorted(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> Arguments:
        rest = dict(named)
        name, outputs = rest.pop("name", ""), 0
        if not isinstance(name, str):
            raise self._error("name must be a string", got=repr(name))
        if self.counted and "outputs" in rest:
            outputs = self._count(rest.pop("outputs"))
        if self.variadic:
            inputs = self._many(given)
        else:
            inputs, given = self._few(given, rest)
        attributes = self._by_position(given)
        for key, value in rest.items():
            if key in attributes:
                raise self._error(f"attribute {key} is given twice")
            attributes[key] = value
        known = [each.name for each in self.attributes]
        for key in attributes:
            if key not in known:
                raise self._unknown(key, known)
        return Arguments(inputs, attributes, outputs, name)

    def _count(self, outputs: object) -> int:
        most = len(self.op.outputs)
        variadic = self.op.outputs[-1].variadic
        if type(outputs) is not int or outputs < 1 or (outputs > most and not variadic):
            allowed = "at least 1" if variadic else f"from 1 to {most}"
            raise self._error(f"outputs must be {allowed}", got=repr(outputs))
        return outputs

    def _many(self, given: tuple[Any, ...]) -> tuple[Input | None, ...]:
        if len(given) == 1 and isinstance(given[0], list | tuple):
            given = tuple(cast(Sequence[Any], given[0]))
        if not given:
            raise self._error("at least one input is required", got="none")
        return given

    def _few(
        self, given: tuple[Any, ...], rest: dict[str, Any]
    ) -> tuple[tuple[Input | None, ...], tuple[Any, ...]]:
        """The inputs, and what is left of the arguments by position."""
        count = len(self.op.inputs)
        found: list[Any] = list(given[:count])
        for param in self.op.inputs[: len(found)]:
            if param.name in rest:
                raise self._error(f"input {param.name} is given twice")
        found += [rest.pop(param.name, None) for param in self.op.inputs[len(found) :]]
        for param, value in zip(self.op.inputs, found, strict=True):
            if value is None and not param.optional:
                raise self._error(f"input {param.name} is required", got="none")
        return tuple(found), given[count:]

    def _by_position(self, given: tuple[Any, ...]) -> dict[str, Any]:
        if self.variadic or not given:
            return {}
        order = [
            name
            for name, each in self.signature.parameters.items()
            if each.kind is Parameter.POSITIONAL_OR_KEYWORD and name in self.hints
        ]
        if len(given) > len(order):
            takes = ", ".join([param.name for param in self.op.inputs] + order) or "nothing"
            count = len(self.op.inputs) + len(given)
            raise self._error(
                f"takes {takes} by position",
                got=f"{count} arguments",
                fix="Give attributes by name." if self.attributes and not order else "",
            )
        return dict(zip(order, given, strict=False))

    def _unknown(self, key: str, known: Sequence[str]) -> UserError:
        names = [*known, *(param.name for param in self.op.inputs if not param.variadic)]
        return self._error(
            f"there is no input or attribute {key}",
            got=", ".join(names) or "none that could be given by name",
            fix=nearest(key, names, 1),
        )

    def _error(self, rule: str, *, got: str = "", fix: str = "", where: str = "") -> UserError:
        return UserError(f"{self.word}: {rule}", got=got, fix=fix, where=where)


def _default(field: Field[Any]) -> Any:
    return Parameter.empty if field.default is MISSING else field.default


def _input_parameter(param: Param) -> Parameter:
    if param.variadic:
        return Parameter(param.name, Parameter.VAR_POSITIONAL, annotation=Value)
    default = None if param.optional else Parameter.empty
    return Parameter(param.name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=Value)


def function_of(op: Op) -> Callable[..., Any]:
    """The function of an op."""
    caller = Caller(op)

    def function(*given: Any, **named: Any) -> Any:
        return caller(*given, **named)

    function.__name__ = function.__qualname__ = caller.word
    function.__doc__ = op.doc
    function.__module__ = "weft.ops"
    function.__signature__ = caller.signature  # pyright: ignore[reportFunctionMemberAccess]
    return function


def functions(ops: Mapping[str, Op]) -> Mapping[str, Callable[..., Any]]:
    """The functions of ops by their names."""
    return {function_name(name): function_of(op) for name, op in ops.items()}


def function_named(name: str) -> Callable[..., Any] | None:
    """The function of that name, of an op of Weft or of a plugin, which is loaded then."""
    known = FUNCTIONS.get(name)
    if known is not None:
        return known
    names = (each.name for each in of_kind(Kind.OPS) if function_name(each.name) == name)
    op = next((OPS[each] for each in names if each in OPS), None)
    return None if op is None else function_of(op)


def meant(name: str) -> str:
    """What to tell who asks for a function that does not exist: why, or which is near."""
    plugins = {function_name(each.name): each.name for each in of_kind(Kind.OPS)}
    failed = OPS.why_missing(plugins[name]) if name in plugins else ""
    return failed or nearest(name, [*FUNCTIONS, *plugins])


FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(functions(OPS.builtin))
