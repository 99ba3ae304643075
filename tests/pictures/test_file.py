"""Pictures as PNG: the size, the text, and what is too large."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from weft.errors import UserError
from weft.pictures import write_picture
from weft.pictures.canvas import frame


def picture(width: float, height: float, *parts: str) -> str:
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return frame(width, height, "a test", [background, *parts])


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("L"), int)


@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_text_is_drawn(tmp_path: Path, weight: str):
    """In a font that comes along: there need be none on the system."""
    path = tmp_path / "text.png"
    letters = f'<text x="10" y="60" font-size="40" font-weight="{weight}">{{}}</text>'
    found = []
    for text in ("×", "µm", "1×3×224×224"):
        write_picture(path, picture(300, 80, letters.format(text)))
        dark = np.argwhere(pixels(path) < 128)
        found.append(dark.max(0)[1] - dark.min(0)[1])
    assert 10 < found[0] < found[1] < found[2] < 500


def test_the_size(tmp_path: Path):
    """Twice the natural one, the one that is asked for, or once where twice is too large."""
    path = tmp_path / "size.png"
    write_picture(path, picture(30, 20))
    assert pixels(path).shape == (40, 60)
    write_picture(path, picture(30, 20), 15)
    assert pixels(path).shape == (10, 15)
    write_picture(path, picture(300, 120_000))
    with Image.open(path) as image:
        assert image.size == (300, 120_000)


def test_what_is_too_large(tmp_path: Path):
    path = tmp_path / "large.png"
    with pytest.raises(UserError) as error:
        write_picture(path, picture(1000, 400_000))
    assert str(error.value) == (
        "a PNG has at most 100,000,000 pixels; got 1,000 x 400,000. "
        "Use a width of at most 500, or write .svg"
    )
    assert not path.exists()
    write_picture(path, picture(1000, 400_000), 50)
    with Image.open(path) as image:
        assert image.size == (50, 20_000)


def test_other_endings_are_text(tmp_path: Path):
    path = tmp_path / "net.svg"
    write_picture(path, picture(3, 2))
    assert path.read_text(encoding="utf-8") == picture(3, 2)
