"""What a recipe is: a named change of a whole graph, with parameters and a promise.

The parameters are a frozen dataclass.  Text (``parts=4 axis=2``) and Python values become its
fields by one function, which names the nearest name where one is misspelt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass
from dataclasses import replace as changed
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin, get_type_hints

from weft.errors import UserError, fault, is_weft, nearest_or_all
from weft.ir.graph import Graph, noted
from weft.ops.resolve import resolved
from weft.records import dataclass
from weft.rewrite.rule import Exactness, exactness_of
from weft.surgery.part import sound

Apply: TypeAlias = Callable[[Graph, Any], Graph]


@dataclass(frozen=True)
class NoParameters:
    """Of a recipe that takes none."""


def parameter(doc: str, default: Any = MISSING) -> Any:
    """A field of a recipe's parameters; one without a default must be given."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True)
class Recipe:
    """One way to change a graph that a user asks for by name.

    Attributes:
        name: as it is typed (``tile-conv``).
        doc: what it does and what for, a few sentences for the reference pages.
        exactness: what it may do to the outputs, whatever its parameters are.
        apply: gives the new graph, or the graph itself where there is nothing to do; raises a
            ``UserError`` where its precondition does not hold.
        parameters: a frozen dataclass whose fields ``parameter`` made.
        promise: what it does to the outputs with these parameters, where that is less.
        proof: why what it does to a graph is exact, as lines of text.
    """

    name: str
    doc: str
    exactness: Exactness
    apply: Apply
    parameters: type = NoParameters
    promise: Callable[[Any], Exactness] | None = None
    proof: Callable[[Graph], Sequence[str]] | None = None

    def __post_init__(self) -> None:
        if not callable(self.apply):
            raise UserError(f"recipe {self.name}: `apply` must be a function", got=repr(self.apply))
        parameters = cast(object, self.parameters)
        if not (isinstance(parameters, type) and is_dataclass(parameters)):
            got = repr(cast(object, parameters))
            raise UserError(f"recipe {self.name}: `parameters` must be a dataclass", got=got)
        object.__setattr__(self, "exactness", exactness_of(self.exactness))

    def exactness_with(self, parameters: Any) -> Exactness:
        """What it may do to the outputs with these parameters."""
        return self.exactness if self.promise is None else self.promise(parameters)


@dataclass(frozen=True, slots=True)
class RecipeParameter:
    """A parameter as it is shown.

    Attributes:
        name: the key.
        kind: what its values are, in words.
        default: as it would be typed; ``None`` where it must be given.
        doc: what it is for.
    """

    name: str
    kind: str
    default: str | None
    doc: str


def apply_recipe(graph: Graph, recipe: Recipe, values: Mapping[str, object]) -> Graph:
    """Apply a recipe; constants that it leaves unused go, and the graph's history tells.

    Args:
        graph: the graph, which stays as it is.
        recipe: what to do.
        values: of its parameters: text, as it is typed, or Python values.

    Raises:
        UserError: a parameter is wrong, or the precondition of the recipe does not hold.
    """
    parameters = parameters_of(recipe, values)
    done = applied(graph, recipe, parameters)
    if done is graph:
        return graph
    return noted(resolved(_without_unused(done)), recipe.name, given_text(recipe, parameters))


def applied(graph: Graph, recipe: Recipe, parameters: Any) -> Graph:
    """What a recipe gives; faults of one that is not Weft's are told as its own.

    Args:
        graph: the graph.
        recipe: what to do.
        parameters: of the recipe, as ``parameters_of`` gives them.
    """
    if is_weft(recipe.apply):
        return recipe.apply(graph, parameters)
    try:
        done = cast(object, recipe.apply(graph, parameters))
        if not isinstance(done, Graph):
            raise TypeError(f"it must return a Graph; it returned {type(done).__name__}")
    except UserError:
        raise  # a precondition that does not hold
    except Exception as error:
        raise fault(f"recipe {recipe.name}: `apply`", recipe.apply, error) from error
    return sound(done, f"recipe {recipe.name}")


def _without_unused(graph: Graph) -> Graph:
    """The graph without constants that nothing reads: weights of what was replaced."""
    used = {value for node in graph.nodes for value in node.inputs} | set(graph.outputs)
    unused = graph.constants.keys() - used
    if not unused:
        return graph
    return changed(
        graph,
        types={value: type for value, type in graph.types.items() if value not in unused},
        constants={v: array for v, array in graph.constants.items() if v not in unused},
    )


def given_text(recipe: Recipe, parameters: Any) -> str:
    """The parameters that differ from their defaults, as they are typed."""
    values = {each: getattr(parameters, each.name) for each in fields(recipe.parameters)}
    return " ".join(
        f"{each.name}={_text(value)}" for each, value in values.items() if value != each.default
    )


# --- parameters -----------------------------------------------------------------------------


def described(recipe: Recipe) -> tuple[RecipeParameter, ...]:
    """The parameters of a recipe, in order."""
    hints = get_type_hints(recipe.parameters)
    return tuple(
        RecipeParameter(
            each.name,
            _words(hints[each.name]),
            None if each.default is MISSING else _text(each.default),
            str(each.metadata.get("doc", "")),
        )
        for each in fields(recipe.parameters)
    )


def parameters_of(recipe: Recipe, values: Mapping[str, object]) -> Any:
    """The parameters of a recipe from text or Python values.

    Raises:
        UserError: a name is not a parameter's, a value is none of its type, or one that has no
            default is missing.
    """
    known: dict[str, Field[Any]] = {each.name: each for each in fields(recipe.parameters)}
    hints = get_type_hints(recipe.parameters)
    for name in values:
        if name not in known:
            raise UserError(
                f"recipe {recipe.name} has no parameter {name}",
                got=f"{name}={_text(values[name])}",
                fix=nearest_or_all(name, known) if known else "It takes none.",
            )
    for name, each in known.items():
        if each.default is MISSING and name not in values:
            raise UserError(
                f"recipe {recipe.name} needs {name}: {each.metadata.get('doc', '')}",
                got="none",
                fix=f"Give {name}=..., which is {_words(hints[name])}.",
            )
    found = {name: _value(recipe, name, value, hints[name]) for name, value in values.items()}
    return recipe.parameters(**found)


def _value(recipe: Recipe, name: str, value: object, hint: Any) -> object:
    found = _converted(value, hint)
    if found is MISSING:
        raise UserError(
            f"parameter {name} of recipe {recipe.name} must be {_words(hint)}", got=_text(value)
        )
    return found


def _converted(value: object, hint: Any) -> object:
    """The value as the hint wants it; ``MISSING`` where it cannot be that."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return _one_of(value, arguments)
    if origin is Literal:
        return value if value in arguments else MISSING
    if origin is tuple:
        return _several(value, arguments[0])
    return _scalar(value, hint)


def _one_of(value: object, hints: Sequence[Any]) -> object:
    if NoneType in hints and (value is None or value == "none"):
        return None
    for hint in hints:
        found = MISSING if hint is NoneType else _converted(value, hint)
        if found is not MISSING:
            return found
    return MISSING


def _several(value: object, hint: Any) -> object:
    if isinstance(value, str):
        items: list[object] = [part.strip() for part in value.split(",") if part.strip()]
    elif isinstance(value, (tuple, list)):
        items = list(cast(Sequence[object], value))
    else:
        items = [value]
    found = [_converted(item, hint) for item in items]
    return MISSING if MISSING in found else tuple(found)


_TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def _scalar(value: object, hint: Any) -> object:
    if hint is bool:
        return value if isinstance(value, bool) else _TRUTH.get(str(value).lower(), MISSING)
    if hint is str:
        return str(value) if isinstance(value, (str, int)) else MISSING
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return MISSING
    if hint is int and isinstance(value, float):
        return MISSING
    try:
        return hint(value)
    except ValueError:
        return MISSING


_NOUNS = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("yes or no", "yes or no"),
    str: ("a name", "names"),
}


def _words(hint: Any) -> str:
    """What values of a type are, in words."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return " or ".join("none" if each is NoneType else _words(each) for each in arguments)
    if origin is Literal:
        return "one of " + ", ".join(str(each) for each in arguments)
    if origin is tuple:
        return f"{_NOUNS[arguments[0]][1]} with commas between"
    return _NOUNS[hint][0]


def _text(value: object) -> str:
    """A value as it is typed."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case tuple() | list():
            return ",".join(_text(each) for each in cast(Sequence[object], value))
        case float():
            return f"{value:g}"
        case _:
            return str(value)
