"""New plugins: a package of each kind that works and is tested, to be changed into another."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

import jinja2

from weft.atomic import replacing_folder, write_files
from weft.errors import UserError
from weft.plugins.discover import Kind
from weft.records import dataclass

_TEMPLATES = files("weft.plugins") / "templates"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Skeleton:
    """A plugin to begin with.

    Attributes:
        kind: of the plugin.
        object: what the entry point names.
        doc: what it brings.
        where: the parts of Weft that are examples of more.
        titled: whether the entry point is in CamelCase, as ops are.
    """

    kind: Kind
    object: str
    doc: str
    where: str
    titled: bool = False


SKELETONS: Mapping[str, Skeleton] = MappingProxyType(
    {
        "op": Skeleton(Kind.OPS, "OP", "An op", "weft/ops/", titled=True),
        "rule": Skeleton(Kind.RULES, "RULES", "A rewrite rule", "weft/rewrite/"),
        "recipe": Skeleton(Kind.RECIPES, "RECIPE", "A recipe", "weft/rewrite/cleanups.py"),
        "target": Skeleton(Kind.TARGETS, "TARGET", "A target", "weft/targets/data/"),
        "kernel": Skeleton(Kind.KERNELS, "KERNEL", "A kernel in C++", "weft/ops/native.py"),
        "generator": Skeleton(
            Kind.GENERATORS, "GENERATOR", "A generator of kernels", "weft/kernels/generators.py"
        ),
        "frontend": Skeleton(Kind.FRONTENDS, "FRONTEND", "A file format", "weft/frontends/"),
        "layer": Skeleton(
            Kind.KERAS_LAYERS, "import_layer", "A Keras layer", "weft/frontends/keras/", titled=True
        ),
        "export": Skeleton(Kind.EXPORTS, "EXPORT", "An export", "weft/export/exports.py"),
        "dataset": Skeleton(Kind.DATASETS, "DATA_SET", "A data set", "weft/datasets.py"),
    }
)
"""By what one types: ``weft plugin new NAME --kind op``."""


def entry_name(name: str, kind: str) -> str:
    """What the entry point of a new plugin is called: ``my-op`` or ``MyOp``."""
    if not SKELETONS[kind].titled:
        return name
    return "".join(part[0].upper() + part[1:] for part in name.split("-"))


def write_skeleton(name: str, kind: str, folder: Path) -> list[Path]:
    """Writes a new plugin: all of its files, or nothing where something is wrong.

    Args:
        name: of the distribution, words joined by hyphens.
        kind: a key of ``SKELETONS``.
        folder: where; must be absent or empty.

    Returns:
        The files, relative to the folder.
    """
    package = _package(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            "a new plugin needs a new or empty folder",
            got=f"{folder}, which is not empty" if folder.is_dir() else f"{folder}, a file",
            fix="Name another folder with --output, or another plugin.",
        )
    texts = dict(_texts(name, package, kind))
    with replacing_folder(folder) as fresh:
        write_files(fresh, [(path, text.encode()) for path, text in texts.items()])
    return sorted(texts)


def _package(name: str) -> str:
    """The Python package of a new plugin."""
    if _NAME.fullmatch(name) is None:
        raise UserError(
            "the name of a plugin must be words of lowercase letters and digits, joined by hyphens",
            got=repr(name),
            fix="For example: my-plugin",
        )
    package = name.replace("-", "_")
    taken = package in sys.stdlib_module_names or keyword.iskeyword(package)
    if taken or importlib.util.find_spec(package) is not None:
        raise UserError(
            "the name of a plugin must not be that of a Python module",
            got=name,
            fix=f"For example: {name}-plugin",
        )
    return package


def _texts(name: str, package: str, kind: str) -> Iterator[tuple[Path, str]]:
    skeleton = SKELETONS[kind]
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    facts = {
        "name": name,
        "package": package,
        "title": entry_name(name, "op"),
        "entry": entry_name(name, kind),
        "kind": kind,
        "group": skeleton.kind.group,
        "object": skeleton.object,
        "doc": skeleton.doc,
        "where": skeleton.where,
    }
    for part in ("common", kind):
        for file in (_TEMPLATES / part).iterdir():
            called = file.name.removesuffix(".jinja")
            text = environment.from_string(file.read_text(encoding="utf-8")).render(facts)
            yield _place(part, called, package), text


def _place(part: str, file: str, package: str) -> Path:
    """Where a file of a skeleton goes."""
    if part == "common":
        return Path(file)
    if file == "test.py":
        return Path("tests") / f"test_{package}.py"
    return Path("src") / package / file
