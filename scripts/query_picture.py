"""Draw the grammar of the query language, one track for each rule."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import railroad
from lark import Lark, Token, Tree

from weft.match.parse import GRAMMAR

_WORDS = {
    "QUANTIFIER": ("?", "+"),
    "STAR": ("*",),
    "LOOK": ("(?=", "(?!", "(?<=", "(?<!"),
    "DOTS": ("...",),
    "EQUAL": ("=",),
    "UNEQUAL": ("!=",),
    "COMPARISON": ("<=", ">=", "<", ">", "~"),
    "KIND": ("const", "input", "output"),
}
"""Terminals that are drawn as what they stand for."""
_SHAPES = {
    "COUNT": "{n}, {n,m} or {n,}",
    "LINK": "-[from:to]->",
    "POSITION": "#position.fact",
    "ATTRIBUTE": "@attribute",
    "SEPARATOR": "; or a new line",
}


def _name(text: str) -> Any:
    text = text.lstrip("?!")
    if text in _WORDS:
        words = [railroad.Terminal(each) for each in _WORDS[text]]
        return words[0] if len(words) == 1 else railroad.Choice(0, *words)
    if text.isupper():
        return railroad.Terminal(_SHAPES.get(text, text.lower()))
    return railroad.NonTerminal(text)


def _drawn(found: Any) -> Any:
    """The tracks of a part of the grammar's own tree."""
    if isinstance(found, Token):
        return railroad.Terminal(str(found).strip('"')) if found.type == "STRING" else _name(found)
    parts = [each for each in found.children if each is not None]
    match found.data:
        case "expansions":
            options = [_drawn(each) for each in parts]
            return options[0] if len(options) == 1 else railroad.Choice(0, *options)
        case "alias":
            return _drawn(parts[0])
        case "expansion":
            items = [_drawn(each) for each in parts]
            return items[0] if len(items) == 1 else railroad.Sequence(*items)
        case "maybe":
            return railroad.Optional(_drawn(parts[0]))
        case "expr" if len(parts) > 1:
            repeat = {"*": railroad.ZeroOrMore, "+": railroad.OneOrMore, "?": railroad.Optional}
            return repeat[str(parts[1])](_drawn(parts[0]))
        case _:
            return _drawn(parts[0])


def _rules() -> Iterator[tuple[str, Any]]:
    grammar = Lark.open_from_package("lark", "lark.lark", ["grammars"], parser="lalr")
    for each in grammar.parse(GRAMMAR + "\n").children:
        if isinstance(each, Tree) and each.data == "rule":
            yield str(each.children[0]).lstrip("?!"), _drawn(each.children[-1])


def query_picture() -> Iterator[str]:
    """One picture of all rules, one below the other."""
    top, width = 10.0, 0.0
    parts: list[str] = []
    for name, track in _rules():
        diagram = railroad.Diagram(track, css=None)  # pyright: ignore[reportArgumentType]
        written = io.StringIO()
        diagram.writeSvg(written.write)
        size = diagram.attrs
        parts.append(f'<text class="rule" x="10" y="{top + 12:g}">{name}</text>')
        inner = written.getvalue().replace("<svg ", f'<svg y="{top + 18:g}" ', 1)
        parts.append(inner.strip())
        top += float(size["height"]) + 34
        width = max(width, float(size["width"]))
    style = railroad.DEFAULT_STYLE + "text.rule { font: bold 14px sans-serif; text-anchor: start }"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 20:g}" height="{top:g}" '
        f'viewBox="0 0 {width + 20:g} {top:g}">\n<style>{style}</style>\n'
        f'<rect width="100%" height="100%" fill="#f8f8f4"/>\n' + "\n".join(parts) + "\n</svg>"
    )
