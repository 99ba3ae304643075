"""Pictures as files: the text of a picture, or what it shows as PNG.

PNG comes from resvg and a font, both of the extra ``weft[png]``: neither a browser nor a library or
font of the system is needed, and a picture is the same everywhere.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from weft.atomic import write_bytes, write_text
from weft.deferred import installed
from weft.errors import UserError

_FONT, _FAMILY = "font_source_sans_pro", "Source Sans Pro"
_MOST_PIXELS = 100_000_000
_SCALES = (2.0, 1.0)  # of a picture whose width nobody asks for, the sharper one first
_SIZE = re.compile(r'viewBox="0 0 (\S+) (\S+)"')


def is_png(path: Path) -> bool:
    """Whether a file's name asks for PNG.

    Raises:
        UserError: it does, and the extra that this needs is missing.
    """
    if path.suffix.lower() != ".png":
        return False
    missing = [name for name in ("resvg_py", _FONT) if not installed(name)]
    if missing:
        raise UserError(
            "PNG pictures need the extra weft[png]",
            got=f"no package {' and '.join(missing)}",
            fix="pip install 'weft[png]', or write .svg",
        )
    return True


def write_picture(path: Path, text: str, width: int | None = None) -> None:
    """Writes a picture: as PNG where the file's name ends so, otherwise the text as it is.

    Args:
        path: the file.
        text: the picture, as SVG if it is to be PNG.
        width: of the PNG in pixels; twice the natural width if not given, or once where twice is
            too large.

    Raises:
        UserError: PNG needs packages that are missing, or more than 100 million pixels.
    """
    if is_png(path):
        write_bytes(path, _png(text, width))
    else:
        write_text(path, text)


def _png(text: str, width: int | None) -> bytes:
    """The pixels of an SVG of Weft's."""
    found = _SIZE.search(text)
    assert found is not None
    across, down = float(found[1]), float(found[2])
    scales = _SCALES if width is None else (width / across,)
    for scale in scales:
        if across * down * scale**2 <= _MOST_PIXELS:
            break
    else:
        most = int((_MOST_PIXELS * across / down) ** 0.5)
        raise UserError(
            f"a PNG has at most {_MOST_PIXELS:,} pixels",
            got=f"{across * scales[-1]:,.0f} x {down * scales[-1]:,.0f}",
            fix=f"Use a width of at most {most:,}, or write .svg",
        )
    font = import_module(_FONT)
    return bytes(
        import_module("resvg_py").svg_to_bytes(
            svg_string=text,
            zoom=scale,
            font_files=[font.SourceSansPro, font.SourceSansProBold],
            sans_serif_family=_FAMILY,
        )
    )
