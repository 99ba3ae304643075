"""What is meant by what people write who know other query languages."""

from __future__ import annotations

import re

_EDGE = "An edge is written `->`, from what makes a value to what reads it."
_BACK = "Chains follow the data: write `Conv -> Relu` for a Relu that reads a Conv."
_POSITION = (
    "`#1` stands in conditions with a fact (`Add[#1.const]`); an edge into input 1 is `-[1]->`."
)
_TUPLE = "A tuple stands in parentheses: `kernel=(3,3)`."

_HINTS: tuple[tuple[str, str], ...] = (
    (r"<>", "Unequal is written `!=`."),
    (r"-\[[^\]\n]*\]->", "An edge stands between two nodes: `* -[1]-> Add`."),
    (r"<-\[|<--?|<=(?!\s*\d)", _BACK),
    (r"~>|=>|-->|--|\u2192|>>|>", _EDGE),
    (r"->\s*>", _EDGE),
    (r"-\[[^\]\n]*\]-(?!>)|-\[[^\]\n]*\](?!-)", "An edge with a label is written `-[1]->`."),
    (r"-(?!>)", _EDGE),
    (r"#", _POSITION),
    (r"==", "Comparisons are written with one `=`."),
    (r"&&?", "Conditions are joined by commas: `Conv[groups=1, users=1]`."),
    (r"and\b", "Conditions are joined by commas: `Conv[groups=1, users=1]`."),
    (r"\|\||or\b", "Alternatives are written `|`."),
    (r"'", 'Text stands in double quotes: `name="conv1"`.'),
    (r"\[", _TUPLE),
    (r"\.\.(?!\.)", "Any further ones are `...`; any nodes between are `**`."),
    (r"\$|@(?![a-z_])|%", "Names of values stand as they are: `x`."),
    (r"/", 'Comments begin with `//`; names of the model stand in conditions: `name~"layer1*"`.'),
    (r'"', 'An op stands without quotes; a name of the model in a condition: `Conv[name="c1"]`.'),
)
"""What somebody may have written, and how it is written here; the first that fits."""


def hint(text: str, at: int) -> str:
    """Advice about what cannot be read, or was not expected, at a place of a query."""
    for pattern, said in _HINTS:
        for start in (at, _before(text, at)):
            if re.compile(pattern).match(text, start):
                return said
    return ""


def _before(text: str, at: int) -> int:
    """Where a run of signs begins that ends before a place: `=` of `==`, say."""
    start = at
    while start > 0 and text[start - 1] in "<>=~-&|!":
        start -= 1
    return start
