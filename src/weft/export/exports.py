"""What a Software Toolkit is made of beside the generated C: templates, and who adds more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import jinja2

from weft.errors import UserError, fault, is_weft, nearest_or_all
from weft.plugins import Kind, Table, Unusable

Write = Callable[[Any], Iterable[tuple[str, str]]]
_TEMPLATES = files("weft.export") / "templates"


@dataclass(frozen=True)
class Export:
    """Files of a toolkit.

    Attributes:
        doc: one sentence: which files, and what for.
        templates: Jinja templates by the names of the files that they become, which are
            templates themselves: ``{"{{ name }}.cmake": folder / "module.cmake.jinja"}``.
            They may speak of what ``weft.export.toolkit.facts`` gives.
        write: names and texts of files made from the ``weft.export.toolkit.Toolkit``, for what
            a template cannot say.
    """

    doc: str
    templates: Mapping[str, Traversable] = field(default_factory=dict[str, Traversable])
    write: Write | None = None


def _accept(_: str, part: object) -> Export:
    if not isinstance(part, Export):
        raise Unusable(f"it must be an Export of weft.export.exports, but is {type(part).__name__}")
    if not part.templates and part.write is None:
        raise Unusable("it must have templates, or a function that writes")
    for name, file in part.templates.items():
        if not file.is_file():
            raise Unusable(f"its template {file} does not exist")
        for text, what in ((name, name), (file.read_text(encoding="utf-8"), file.name)):
            try:
                _ENVIRONMENT.parse(text)
            except jinja2.TemplateSyntaxError as error:
                raise Unusable(f"template {what}, line {error.lineno}: {error.message}") from error
    return part


_ENVIRONMENT = jinja2.Environment(
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)


def rendered(template: str, facts: Mapping[str, Any]) -> str:
    """One of Weft's own templates, filled in."""
    text = (_TEMPLATES / template).read_text(encoding="utf-8")
    return _ENVIRONMENT.from_string(text).render(facts)


TOOLKIT = "toolkit"
EXPORTS: Table[Export] = Table(
    Kind.EXPORTS,
    {
        TOOLKIT: Export(
            "Self-test, Makefile, README, report and notice; always written.",
            {
                "{{ name }}_test.c": _TEMPLATES / "test.c.jinja",
                "{{ name }}_stack.awk": _TEMPLATES / "stack.awk.jinja",
                "Makefile": _TEMPLATES / "Makefile.jinja",
                "README.md": _TEMPLATES / "README.md.jinja",
                "report.md": _TEMPLATES / "report.md.jinja",
                "NOTICE": _TEMPLATES / "NOTICE.jinja",
            },
        )
    },
    _accept,
)
"""Every export by name."""


def export_named(name: str) -> Export:
    """The export of a name; a ``UserError`` names the nearest if there is none."""
    found = EXPORTS.get(name)
    if found is None:
        raise UserError(
            "unknown export",
            got=name,
            fix=EXPORTS.why_missing(name) or nearest_or_all(name, EXPORTS),
        )
    return found


def written(name: str, toolkit: object, facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and texts of an export's files.

    Args:
        name: of the export.
        toolkit: the ``Toolkit``.
        facts: what templates may speak of.
    """
    export = export_named(name)
    for wish, file in export.templates.items():
        try:
            called = _ENVIRONMENT.from_string(wish).render(facts)
            yield called, _ENVIRONMENT.from_string(file.read_text(encoding="utf-8")).render(facts)
        except jinja2.TemplateError as error:
            raise UserError(
                f"the template {file.name} of the export {name} must fit the facts",
                got=error.message or type(error).__name__,
            ) from error
    if export.write is not None:
        yield from _by_function(name, export.write, toolkit)


def _by_function(name: str, write: Write, toolkit: object) -> list[tuple[str, str]]:
    """What a function writes; faults of one that is not Weft's are told as its own."""
    try:
        files = [(path, text) for path, text in write(toolkit)]
        if not all(isinstance(each, str) for file in files for each in file):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("it must give pairs of a name and a text")
        return files
    except UserError:
        raise
    except Exception as error:
        if is_weft(write):
            raise
        raise fault(f"export {name}: `write`", write, error) from error
