"""Layers as configurations state them, checked as far as every layer must be right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, cast

from weft.frontends.keras.hdf5 import broken
from weft.frontends.keras.record import OPERATIONS
from weft.frontends.keras.weights import snake_case
from weft.records import dataclass

MODELS = frozenset({"Functional", "Model", "Sequential"})
_OWN = ("keras", "tf_keras", "tensorflow.keras", "tensorflow.python.keras", "tensorflow.python.tpu")
_NOT_LAYERS = (
    "keras.src.ops",
    "keras.ops",
    "keras.src.backend",
    "keras.src.random",
    "keras.random",
)
_LONGEST = 256
_CLASSES = {"GroupQueryAttention": "GroupedQueryAttention"}
"""Classes whose own name, after which weights are grouped, is not the one in configurations."""


@dataclass(frozen=True)
class Spec:
    """A layer.

    Attributes:
        kind: the name of its class.
        name: its own.
        config: its fields.
        calls: as in the file.
        custom: the class is not of Keras; what it is registered under.
        is_operation: it is a function of ``keras.ops``, not a layer.
        shared: the number of a layer that stands at several places of the file.
    """

    kind: str
    name: str
    config: Mapping[str, Any]
    calls: tuple[Any, ...] = ()
    custom: str = ""
    is_operation: bool = False
    shared: int | None = None

    @property
    def is_model(self) -> bool:
        """Whether it is a model, inside another one or on its own."""
        return self.kind in MODELS and not self.custom and "layers" in self.config

    @property
    def layers(self) -> tuple[Spec, ...]:
        """The layers of a model, in order."""
        found = self.config["layers"]
        if not isinstance(found, list):
            raise broken("a model whose layers are no list")
        specs = tuple(spec_of(each) for each in cast(list[object], found))
        names = [each.name for each in specs]
        if self.kind != "Sequential" and len(set(names)) != len(names):
            raise broken("layers of the same name")
        return specs

    def groups(self) -> Iterator[tuple[Spec, str]]:
        """The layers of a model with the names that their weights have in ``.keras`` files."""
        used: dict[str, int] = {}
        for each in self.layers:
            if each.is_operation or (self.kind == "Sequential" and each.kind == "InputLayer"):
                yield each, ""
                continue
            name = snake_case(_CLASSES.get(each.kind, each.kind))
            count = used[name] = used.get(name, -1) + 1
            yield each, f"layers/{name}_{count}" if count else f"layers/{name}"


def spec_of(found: object) -> Spec:
    """A layer from its object in JSON."""
    if not isinstance(found, dict):
        raise broken("a layer that is no object")
    given = cast(dict[str, Any], found)
    kind, config = given.get("class_name"), given.get("config")
    if isinstance(config, list):  # how old models wrote `Sequential`
        config = {"name": "sequential", "layers": cast(list[Any], config)}
    if not isinstance(kind, str) or not isinstance(config, dict):
        raise broken("a layer without class or configuration")
    fields = cast(dict[str, Any], config)
    name = given.get("name") or fields.get("name") or kind.lower()
    calls: object = given.get("inbound_nodes") or []
    if not isinstance(name, str) or not isinstance(calls, list):
        raise broken("a layer without a name")
    if not name.isprintable() or len(name) > _LONGEST or len(kind) > _LONGEST:
        raise broken(f"a layer whose name is {name[:40]!r}")
    module = str(given.get("module") or "")
    shared: object = given.get("shared_object_id")
    return Spec(
        kind.rpartition(">")[2],
        name,
        fields,
        tuple(cast(list[Any], calls)),
        _custom(kind, module, given),
        _is_operation(kind, module, fields),
        shared if isinstance(shared, int) else None,
    )


def _custom(kind: str, module: str, given: Mapping[str, Any]) -> str:
    """The name of a class that is not of Keras; empty for one that is."""
    own = not module or module in _OWN or module.startswith(tuple(f"{each}." for each in _OWN))
    registered = given.get("registered_name")
    if ">" in kind:
        return kind
    if own and "module" in given and not module and isinstance(registered, str):
        return registered
    return "" if own else str(registered or kind)


def _is_operation(kind: str, module: str, fields: Mapping[str, Any]) -> bool:
    if module:
        return module.startswith(_NOT_LAYERS)
    # Files without modules: nearly all layers have a field that says whether they are trained.
    return kind in OPERATIONS and "trainable" not in fields


@dataclass
class Refusals:
    """Layers that cannot be imported, each once."""

    lines: dict[str, None] = field(default_factory=dict[str, None])

    def add(self, path: str, kind: str, reason: str) -> None:
        """Notes one."""
        self.lines[f"{path} ({kind}): {reason}"] = None
