"""Texts with words to fill in, such as C, that lie in files beside the modules that use them.

A file holds several texts, each after a line ``//@ NAME``.  Lines that begin with ``//`` are
remarks and belong to no text.  ``$word`` and ``${word}`` are filled in; alone on its line, a
word stands for any number of lines, which are indented as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template
from textwrap import indent

_MARK = "//@ "
_LINES = re.compile(r"^( *)\$\{?(\w+)\}?\n", re.MULTILINE)


@cache
def texts(package: str, file: str) -> Mapping[str, str]:
    """The texts of a file of a package by their names, as they were written."""
    found: dict[str, str] = {}
    name = ""
    for line in files(package).joinpath(file).read_text(encoding="utf-8").splitlines():
        if line.startswith(_MARK):
            name = line.removeprefix(_MARK)
            found[name] = ""
        elif name and not line.startswith("//"):
            found[name] += f"{line}\n"
    return {name: f"{text.rstrip()}\n" for name, text in found.items()}


def filled(text: str, words: Mapping[str, object]) -> str:
    """A text with all its words filled in."""
    lines = _LINES.sub(lambda found: indent(str(words[found[2]]), found[1]), text)
    return Template(lines).substitute(words)
