"""Modules compiled whole."""

import torch
from torch import nn

import weft


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.relu(self.norm(self.conv(x)))
        return {"scores": self.head((y + y.sigmoid()).mean((2, 3))), "features": y}


def test_a_module_gives_what_it_gave():
    module = Residual().eval()
    x = torch.randn(2, 3, 16, 16)
    fast = weft.optimize(module, x)
    with torch.no_grad():
        got, expected = fast(x), module(x)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=1e-4, atol=1e-5)


class Directions(nn.Module):
    """Rows of length one, as keys of cosine attention, of windows that are partly padding."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Linear(192, 192, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = nn.functional.pad(x, (0, 0, 0, 512))
        return nn.functional.normalize(self.keys(padded), dim=-1)


def test_rows_of_zeros_have_no_direction():
    module = Directions().eval()
    x = torch.randn(512, 192)
    fast = weft.optimize(module, x, measure=False)
    with torch.no_grad():
        got, expected = fast(x), module(x)
    assert not expected[512:].any()
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
