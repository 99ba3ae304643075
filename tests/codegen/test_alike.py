"""One C function for kernels that differ in numbers only computes what each of them does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.harness import Case, check, program_of
from tests.kernels.tasks import tasks_of, tiled_kernel
from tests.plan.nets import Net
from tests.turns import in_turn
from weft.codegen.emit import Files, emit
from weft.loops.nodes import Kernel
from weft.loops.text import parse
from weft.loops.walk import reduces

TILES = """
kernel k(x: f32[{rows}, {columns}] strides({pitch}, 1) read, w: f32[{columns}, 8] read, out: f32[{rows}, 8] strides({wide}, 1) write) {{
  for tile in 0..{tiles} parallel {{
    local acc: f32[10, 8] {{
      for p in 0..10 unroll {{
        for lane in 0..8 vector {{
          acc[p, lane] = 0.0
        }}
      }}
      for part in 0..{parts} {{
        for k in part * 8..min(part * 8 + 8, {columns}) {{
          prefetch w[min(k + 1, {last}), 0]
          for p in 0..10 unroll {{
            for lane in 0..8 vector {{
              acc[p, lane] = acc[p, lane] + x[tile * 10 + p, k] * w[k, lane]
            }}
          }}
        }}
        if part < {late} {{
          for p in 0..10 unroll {{
            for lane in 0..8 vector {{
              acc[p, lane] = acc[p, lane] * 0.5
            }}
          }}
        }}
      }}
      for p in 0..10 unroll {{
        for lane in 0..8 vector {{
          out[tile * 10 + p, lane] = acc[p, lane]
        }}
      }}
    }}
  }}
}}
"""  # noqa: E501


def tiles(count: int, columns: int, pitch: int, wide: int) -> Case:
    """Sums over columns in parts, by tiles of ten rows."""
    parts = -(-columns // 8)
    text = TILES.format(
        rows=10 * count, columns=columns, pitch=pitch, wide=wide, tiles=count, parts=parts,
        last=columns - 1, late=parts - 1,
    )  # fmt: skip
    random = np.random.default_rng(columns)
    arrays = {
        "x": random.standard_normal((10 * count - 1) * pitch + columns),
        "w": random.standard_normal((columns, 8)),
    }
    return Case(parse(text), {name: array.astype(np.float32) for name, array in arrays.items()}, 64)


CASES = [tiles(9, 20, 20, 8), tiles(9, 29, 32, 13), tiles(9, 70, 90, 8), tiles(9, 60, 64, 10)]


def written(cases: list[Case], flavour: str, share: bool, parts: int = 1) -> Files:
    program, _, _ = program_of(cases, parts=parts)
    return emit(program, flavour, "blob", share=share)


def definitions(files: Files) -> int:
    """How many kernels have a function of their own."""
    names = [each.name for each in files.calls.functions if each.name.startswith("k")]
    return len([name for name in names if "_" not in name])


@pytest.mark.parametrize(("flavour", "parts"), in_turn([("gnu",), ("c89",), ("c99",)], (1, 3)))
def test_equal_to_the_interpreter(flavour: str, parts: int, tmp_path: Path) -> None:
    assert definitions(written(CASES, flavour, False, parts)) == len(CASES)
    assert definitions(written(CASES, flavour, True, parts)) == 1
    check(CASES, flavour, tmp_path, parts=parts)


def test_what_it_is_told_stands_above_it_and_in_the_calls() -> None:
    ((_, text),) = written(CASES[:3], "gnu", True).sources
    told = "20, 8, 3, 20, 19, 2; 32, 13, 4, 29, 28, 3; 90, 8, 9, 70, 69, 8"
    assert f"with n0, n1, n2, n3, n4, n5: {told}" in text
    assert ", 32, 13, 4, 29, 28, 3);" in text
    assert "float *restrict out, int n0, int n1, int n2, int n3, int n4, int n5)" in text
    # Rows of a tile lie so many floats behind the first one.
    assert "x_at[n0 * 9]" in text


def test_products_of_numbers_that_need_more_bits_than_an_int() -> None:
    far, base = 1 << 28, CASES[0]
    x = replace(base.kernel.params[0], strides=(far, 1))
    other = replace(base.kernel, name="k1", params=(x, *base.kernel.params[1:]))
    program, _, _ = program_of(CASES[:3])
    functions = program.functions[0], other, program.functions[2]
    ((_, text),) = emit(replace(program, functions=functions), share=True).sources
    assert "x + (int64_t)tile * (int64_t)n0 * 10 + (int64_t)k;" in text


def test_layers_of_a_dense_block() -> None:
    """Convolutions of ever more channels, as kernel generators write them."""
    kernels: list[Kernel] = []
    for channels in (160, 192, 224, 256):
        net = Net()
        x = net.input(1, channels, 14, 14)
        tasks = tasks_of(net, net.conv(x, 64, 1), machine="x86-avx512")
        (task,) = [each for each in tasks if reduces(each.compute.value)]
        made = tiled_kernel(task)
        assert made is not None
        kernels.append(made.kernel)
    cases = [Case(each, _arrays(each)) for each in kernels]
    assert definitions(written(cases, "gnu", True)) < len(kernels)


def _arrays(kernel: Kernel) -> dict[str, np.ndarray]:
    return {each.name: np.zeros(each.shape, np.float32) for each in kernel.params}
