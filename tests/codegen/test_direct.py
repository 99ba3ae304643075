"""Where memory is scarce, the run function makes the calls that kernels consist of."""

from __future__ import annotations

import numpy as np
import pytest

from bench.stack import MACHINES, painted
from tests.counted import lines_run
from tests.rewrite.checks import graph_of
from weft.api import Net
from weft.codegen.direct import DirectCall, Window, direct_calls
from weft.codegen.helpers import assembly_stack
from weft.loops.simplify import simplify_kernel
from weft.loops.text import parse
from weft.runtime.emulators import MACHINES as EMULATED
from weft.runtime.emulators import emulated

HEAD = """
  const %s: f32[] = [0.0625]
  const %z: i8[] = [-128]
  const %n: i8[] = [0]
"""
DENSE = f"""(%x: i8[1,8,1,1]) -> (%y) {{{HEAD}
  const %w: i8[32,8,1,1]
  const %v: i8[16,32,1,1]
  %c: i8[1,32,1,1] = QLinearConv(%x, %s, %z, %w, %s, %n, %s, %z)
  %y: i8[1,16,1,1] = QLinearConv(%c, %s, %z, %v, %s, %n, %s, %z)
}}"""
IMAGE = f"""(%x: i8[1,8,12,12]) -> (%y) {{{HEAD}
  const %w: i8[16,8,12,12]
  const %u: i8[8,8,3,3]
  const %v: i8[8,16,1,1]
  %b: i8[1,8,12,12] = QLinearConv(%x, %s, %z, %u, %s, %n, %s, %z) {{pads=(1,1,1,1)}}
  %c: i8[1,16,1,1] = QLinearConv(%b, %s, %z, %w, %s, %n, %s, %z)
  %y: i8[1,8,1,1] = QLinearConv(%c, %s, %z, %v, %s, %n, %s, %z)
}}"""
KERNEL = """
kernel dense(x: i8[2, 8] read, stream: i32[2, 24] read, patch: i32[2, 1, 2] scratch,
    out: i8[2, 8] write) {
  patch_row_1_2_0_2_8_0(patch[0, 0, 0], x[1, 0])
  bytes_4x1b_2_2_24_0(out[1, 0], patch[0, 0, 0], stream[0, 0])
}"""


def net(text: str) -> Net:
    return Net(graph_of(text))


def test_calls_of_a_kernel_at_fixed_places():
    assert direct_calls(parse(KERNEL)) == (
        DirectCall("weft_instr_patch_row_1_2_0_2_8_0", (Window(2, 0), Window(0, 8))),
        DirectCall("weft_instr_bytes_4x1b_2_2_24_0", (Window(3, 8), Window(2, 0), Window(1, 0))),
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  bytes", "  out[0, 0] = x[0, 0]\n  bytes"),
        ("  patch_row_1_2_0_2_8_0(patch[0, 0, 0], x[1, 0])", "  for i in 0..2 {\n"
         "    patch_row_1_2_0_2_8_0(patch[0, 0, 0], x[i, 0])\n  }"),
    ],
)  # fmt: skip
def test_a_kernel_of_more_has_a_function(old: str, new: str):
    assert direct_calls(parse(KERNEL.replace(old, new))) is None


def test_dense_layers_are_calls_of_the_run_function():
    files = net(DENSE).source("cortex-m4", name="net")
    (_, text), *more = files.sources
    assert not more
    assert "WEFT_APART" not in text
    run = text[text.index("int net_run(") :]
    assert run.count("weft_instr_dual_4x1b") == 2
    assert "    volatile struct {\n        unsigned char *memory;\n" in run
    # The patch, of a few bytes, is in the arena.
    assert "patch[" not in run


@pytest.mark.parametrize(("text", "target"), [(IMAGE, "cortex-m4"), (DENSE, "x86-avx2")])
def test_where_it_saves_nothing_kernels_have_functions(text: str, target: str):
    """Another kernel is as deep, or has no functions in assembly."""
    source = net(text).source(target, name="net").sources[0][1]
    assert "volatile struct" not in source
    assert "conv" in source[source.index("int net_run(") :]


def test_the_stack_is_exact(tmp_path):
    """Nothing is called but assembly: the figure is exact, and what is painted over."""
    (machine,) = [each for each in MACHINES if each.name == "Cortex-M4 assembly"]
    if machine.missing:
        pytest.skip(f"there is no {machine.missing}")
    made = net(DENSE).export(tmp_path / "net", "cortex-m4", name="net")
    used, measured = painted(made.files, tmp_path / "net", machine, "2")
    assert used == measured <= assembly_stack("weft_dual_4x1b") + 32


def test_bits():
    if missing := EMULATED["cortex-m4"].missing():
        pytest.skip(missing)
    x = np.random.default_rng(1).integers(-128, 128, (1, 8, 1, 1), np.int8)
    dense = net(DENSE)
    (y,) = emulated(dense.source("cortex-m4", name="net"), [(x,)], "cortex-m4").outputs[0]
    np.testing.assert_array_equal(y, dense.compile()(x))


def test_kernels_without_instructions_are_not_simplified_for_that():
    loops = "".join(f"for i in 0..16 {{ out[{n}, i] = x[{n}, i] * 2.0 }}" for n in range(64))
    kernel = parse(f"kernel k(x: f32[64, 16] read, out: f32[64, 16] write) {{ {loops} }}")
    assert 4 * lines_run(lambda: direct_calls(kernel)) < lines_run(lambda: simplify_kernel(kernel))
