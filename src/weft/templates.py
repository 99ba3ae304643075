"""Texts with words to fill in, such as C, that lie in files beside the modules that use them.

A file holds several texts, each after a line ``//@ NAME``.  Lines that begin with ``//`` are
remarks and belong to no text.  ``$word`` and ``${word}`` are filled in; alone on its line, a
word stands for any number of whole lines.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from string import Template

_MARK = "//@ "
_LINES = re.compile(r"\$\w+|\$\{\w+\}")


@cache
def templates(package: str, file: str) -> dict[str, Template]:
    """The texts of a file of a package by their names, in the order of the file."""
    texts: dict[str, str] = {}
    name = ""
    for line in files(package).joinpath(file).read_text(encoding="utf-8").splitlines():
        if line.startswith(_MARK):
            name = line.removeprefix(_MARK)
            texts[name] = ""
        elif name and not line.startswith("//"):
            texts[name] += line if _LINES.fullmatch(line) else f"{line}\n"
    return {name: Template(f"{text.rstrip()}\n") for name, text in texts.items()}
