"""What a Software Toolkit is made of beside the generated C: templates, and who adds more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import jinja2

from weft.errors import UserError, fault, is_weft, nearest_or_all
from weft.plugins import Kind, Table, Unusable
from weft.records import dataclass

LAYOUTS = ("cmsis", "zephyr", "arduino")
"""Exports that make a toolkit a package of a build system, each with a folder of templates."""
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
        overrides: templates in place of Weft's own, by the names of these (``README.md.jinja``;
            `src/weft/export/templates` has them all).
        write: names and texts of files made from the ``weft.export.toolkit.Toolkit``, for what
            a template cannot say.
    """

    doc: str
    templates: Mapping[str, Traversable] = field(default_factory=dict[str, Traversable])
    write: Write | None = None
    overrides: Mapping[str, Traversable] = field(default_factory=dict[str, Traversable])


def _accept(_: str, part: object) -> Export:
    if not isinstance(part, Export):
        raise Unusable(f"it must be an Export of weft.export.exports, but is {type(part).__name__}")
    if not part.templates and not part.overrides and part.write is None:
        raise Unusable("it must have templates, or a function that writes")
    unknown = [name for name in part.overrides if name not in own_templates()]
    if unknown:
        raise Unusable(f"it overrides {unknown[0]}, which is none of Weft's templates")
    for name, file in (*part.templates.items(), *part.overrides.items()):
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


def own_templates() -> dict[str, Traversable]:
    """Weft's own templates of toolkits by file name."""
    folders = (_TEMPLATES, *(_TEMPLATES / name for name in LAYOUTS))
    found = (file for folder in folders for file in folder.iterdir())
    return {file.name: file for file in found if file.name.endswith(".jinja")}


@dataclass(frozen=True)
class Templates:
    """Weft's own templates, some of them replaced.

    Attributes:
        replaced: texts by file name.
    """

    replaced: Mapping[str, str] = field(default_factory=dict[str, str])

    def text(self, file: Traversable) -> str:
        """The template in a file, or what replaces it."""
        found = self.replaced.get(file.name)
        return file.read_text(encoding="utf-8") if found is None else found

    def rendered(self, name: str, facts: Mapping[str, Any]) -> str:
        """One of them, filled in.

        Raises:
            UserError: a replaced one does not fit the facts.
        """
        try:
            return _ENVIRONMENT.from_string(self.text(_TEMPLATES / name)).render(facts)
        except jinja2.TemplateError as error:
            raise UserError(
                f"the template {name} must fit the facts of a toolkit",
                got=error.message or type(error).__name__,
            ) from error


def chosen_templates(folder: str | Path, also: Iterable[str]) -> Templates:
    """The templates with those of a folder and of exports in place of Weft's.

    Args:
        folder: with files named like Weft's own (``README.md.jinja``); empty for none.
        also: names of exports, whose overrides come before the folder's.

    Raises:
        UserError: there is no such folder, or a file in it is no template of Weft's.
    """
    found = {
        name: file.read_text(encoding="utf-8")
        for export in also
        for name, file in export_named(export).overrides.items()
    }
    if folder:
        found |= _of_folder(Path(folder))
    return Templates(found)


def _of_folder(folder: Path) -> dict[str, str]:
    if not folder.is_dir():
        raise UserError("templates must be in a folder", got=str(folder))
    known = own_templates()
    found: dict[str, str] = {}
    for file in sorted(folder.iterdir()):
        if file.name not in known:
            raise UserError(
                "a folder of templates has files named like Weft's own",
                got=str(file),
                fix=nearest_or_all(file.name, known),
            )
        found[file.name] = file.read_text(encoding="utf-8")
    return found


def rendered(template: str, facts: Mapping[str, Any]) -> str:
    """One of Weft's own templates, filled in."""
    return Templates().rendered(template, facts)


def arduino_sources(toolkit: Any) -> Iterator[tuple[str, str]]:
    """Files in `src` that include those of the folder above: Arduino compiles no others."""
    files = toolkit.files
    headers = [files.header[0], *(name for name, _ in files.private), f"{files.name}_golden.h"]
    sources = [name for name, _ in files.sources]
    for name in (*headers, *sources, *(name for name, _ in files.foreign.files)):
        yield f"src/{name}", rendered("arduino/source.jinja", {"file": name})


TOOLKIT = "toolkit"
EXPORTS: Table[Export] = Table(
    Kind.EXPORTS,
    {
        TOOLKIT: Export(
            "Tests, Makefile, CMake file, README, reports and notice; always written.",
            {
                "{{ name }}_test.c": _TEMPLATES / "test.c.jinja",
                "{{ name }}_stack.awk": _TEMPLATES / "stack.awk.jinja",
                "Makefile": _TEMPLATES / "Makefile.jinja",
                "CMakeLists.txt": _TEMPLATES / "CMakeLists.txt.jinja",
                "README.md": _TEMPLATES / "README.md.jinja",
                "report.md": _TEMPLATES / "report.md.jinja",
                "REPORT.html": _TEMPLATES / "REPORT.html.jinja",
                "NOTICE": _TEMPLATES / "NOTICE.jinja",
            },
        ),
        "cmsis": Export(
            "Description of the folder as a CMSIS-Pack.",
            {"Weft.{{ name }}.pdsc": _TEMPLATES / "cmsis" / "pdsc.jinja"},
        ),
        "zephyr": Export(
            "A Zephyr module: its description, CMake file and options.",
            {
                "zephyr/module.yml": _TEMPLATES / "zephyr" / "module.yml.jinja",
                "zephyr/CMakeLists.txt": _TEMPLATES / "zephyr" / "zephyr.cmake.jinja",
                "zephyr/Kconfig": _TEMPLATES / "zephyr" / "Kconfig.jinja",
            },
        ),
        "arduino": Export(
            "An Arduino library: its properties, sources in src, and a sketch.",
            {
                "library.properties": _TEMPLATES / "arduino" / "library.properties.jinja",
                "{{ 'examples/sample/sample.ino' if standalone else '' }}": _TEMPLATES
                / "arduino"
                / "sample.ino.jinja",
            },
            arduino_sources,
        ),
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


def written(
    name: str, toolkit: object, facts: Mapping[str, Any], templates: Templates
) -> Iterator[tuple[str, str]]:
    """Names and texts of an export's files.

    Args:
        name: of the export; a template whose name becomes empty is left out.
        toolkit: the ``Toolkit``.
        facts: what templates may speak of.
        templates: some of which may replace Weft's.
    """
    export = export_named(name)
    for wish, file in export.templates.items():
        try:
            called = _ENVIRONMENT.from_string(wish).render(facts)
            if called:
                yield called, _ENVIRONMENT.from_string(templates.text(file)).render(facts)
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
