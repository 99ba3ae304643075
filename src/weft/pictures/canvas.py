"""What pictures share: text that SVG can hold, the frame, colours that mark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

# Okabe and Ito's colours, which colour-blind people can tell apart, and tints of them.
COLOURS = (
    "#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7",
    "#a6d8f4", "#f3cf80", "#80cfb9", "#f8f2a1", "#80b9d9", "#eaaf80", "#e6bcd3",
)  # fmt: skip
# Dark enough to be seen as a frame, and told apart by colour-blind people.
MARKS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#8b5a00", "#6a3d9a", "#000000")


def clean(text: str) -> str:
    """Text without control characters, except for line ends: XML cannot hold them, and names
    from a model must not steer a terminal.
    """
    return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)


def quoted(text: str) -> str:
    """Text as XML's content."""
    return escape(clean(text), quote=False)


def shortened(text: str, most: int) -> str:
    """At most so many characters: the end of a name says more than its beginning."""
    return text if len(text) <= most else "…" + text[len(text) - most + 1 :]


def cut(text: str, most: int) -> str:
    """At most so many characters from the beginning."""
    return text if len(text) <= most else text[: most - 1] + "…"


def title(text: str) -> str:
    """A tooltip."""
    return f"<title>{quoted(text)}</title>"


def element(tag: str, inside: str = "", /, **attributes: object) -> str:
    """An element of SVG.

    Args:
        tag: its name.
        inside: markup.
        attributes: ``stroke_width=2`` is ``stroke-width="2"``; numbers have two decimals at most.
    """
    pairs = ((name.replace("_", "-"), _attribute(each)) for name, each in attributes.items())
    head = "".join([tag, *(f' {name}="{value}"' for name, value in pairs)])
    return f"<{head}>{inside}</{tag}>" if inside else f"<{head}/>"


def _attribute(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(clean(str(value)))


def text(x: float, y: float, words: str, /, **attributes: object) -> str:
    """Words from a point on, or around it."""
    return element("text", quoted(words), x=x, y=y, **attributes)


def path(commands: str, told: str = "", /, **attributes: object) -> str:
    """A line with a tooltip."""
    return element("path", title(told) if told else "", d=commands, **attributes)


def rectangle(
    x: float, y: float, width: float, height: float, told: str = "", /, **attributes: object
) -> str:
    """A rectangle with a tooltip."""
    inside = title(told) if told else ""
    return element("rect", inside, x=x, y=y, width=width, height=height, **attributes)


def page(width: float, height: float) -> str:
    """White paper."""
    return rectangle(0, 0, width, height, fill="#ffffff")


def legend(
    colours: Mapping[str, str], left: float, right: float, top: float
) -> tuple[list[str], float]:
    """What colours stand for, in as many lines as it takes, and where the last line begins."""
    parts: list[str] = []
    x, y = left, top
    for kind, colour in colours.items():
        width = 30 + 7 * len(kind)
        if x > left and x + width > right:
            x, y = left, y + 16
        parts.append(rectangle(x, y, 10, 10, fill=colour))
        parts.append(text(x + 14, y + 9, kind))
        x += width
    return parts, y


def frame(
    width: float, height: float, label: str, parts: Iterable[str], *, natural: bool = True
) -> str:
    """A whole picture of some size.

    Args:
        width: in pixels at its natural size.
        height: as well.
        label: for those who cannot see it.
        parts: what is in it, bottom first.
        natural: shown at that size; else as large as there is room.
    """
    size = f'width="{width:g}" height="{height:g}" ' if natural else ""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'{size}role="img" aria-label="{escape(clean(label))}" '
        'font-family="sans-serif" font-size="11" fill="#333333">'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"
