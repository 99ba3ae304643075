"""The page that shows generated kernels: real C of small examples, with commentary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kernels_examples import EXAMPLES, TARGET, Example, Layers

from weft.api import Net
from weft.codegen.emit import emit

_FUNCTION = re.compile(
    r"/\*(?:(?!\*/).)*\*/\nstatic __attribute__\(\(noinline\)\) void (\w+)\(.*?\n}\n", re.S
)
_ALIKE = 3
"""Groups of lines that differ in nothing but numbers; more are left out."""


class _Named(Mapping[str, str]):
    """Choices that name one alternative for every layer."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme

    def __getitem__(self, key: str) -> str:
        return self.scheme

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


def kernels_page() -> Iterator[str]:
    """One section for each kind of kernel."""
    yield "# Generated kernels"
    yield "<!-- Written by scripts/docs.py from scripts/kernels_examples.py; do not edit. -->"
    yield (
        "One kernel of each kind as Weft writes it, for small layers and AVX2 (`weft show "
        f"MODEL --after c --target {TARGET}` shows those of a network). `v8f32` is a vector of "
        "eight floats, `v8f32_mem` one at any address. Above every function stands what it "
        "computes, with shapes, and what its parameters are: extents and strides of the input, the "
        "packed weights, the output. Where lines repeat but for their numbers, the page leaves "
        "some out and says so; the C has them all."
    )
    for example in EXAMPLES:
        yield f"## {example.title}"
        yield example.text
        yield f"```c\n{excerpt(example)}\n```"


def excerpt(example: Example) -> str:
    """The C of an example, shortened."""
    net = Layers()
    output = example.make(net)
    choices = _Named(example.scheme) if example.scheme else None
    whole = Net(net.builder.graph([output])).simplified()
    program = whole.program(
        example.target,
        "example",
        choices=choices,
        precision=example.precision,
        parameters=example.parameters,
    )
    text = emit(program, "gnu", "blob").sources[0][1]
    functions = {found.group(1): found.group() for found in _FUNCTION.finditer(text)}
    lines = functions[example.function].rstrip("\n").split("\n")
    first = lines.index("{") + 1
    head, body = lines[:first], lines[first:]
    skipped = next((at for at, line in enumerate(body) if re.search(example.start, line)), 0)
    shown = shortened(body[skipped:])
    cut = ["    /* ... */"]
    rest = [*cut, "}"] if len(shown) > example.lines else []
    return "\n".join([*head, *(cut if skipped else []), *shown[: example.lines], *rest])


def shortened(lines: list[str]) -> list[str]:
    """The lines without most of those groups that repeat but for their numbers."""
    found: list[str] = []
    place = 0
    shapes = [re.sub(r"\d+", "#", line) for line in lines]
    while place < len(lines):
        size, times = _repeats(shapes, place)
        kept = size * 2 if times > _ALIKE else 1
        found += lines[place : place + kept]
        if times > _ALIKE:
            indent = " " * (len(lines[place]) - len(lines[place].lstrip()))
            found.append(f"{indent}/* ... and so on, {times} in all */")
            kept = size * times
        place += kept
    return found


def _repeats(shapes: list[str], place: int) -> tuple[int, int]:
    """Size and number of the equal groups of lines that begin at a place."""
    for size in (1, 2, 3, 4):
        group = shapes[place : place + size]
        times = 1
        while shapes[place + times * size : place + (times + 1) * size] == group:
            times += 1
        if times > _ALIKE:
            return size, times
    return 1, 1
