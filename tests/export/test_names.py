"""Networks and values with names that C, its headers or the file system have other uses for."""

import subprocess

import numpy as np
import pytest

import weft
from tests.cli.commands import good
from weft.errors import UserError
from weft.runtime.compiler import find_compiler

STRICT = "-std=c99 -pedantic-errors -Wall -Wextra -Werror -Wconversion -Wshadow".split()
MACROS = (
    "SUM_H SUM_ARENA_BYTES SUM_STACK_BYTES SUM_NULL_POINTER SUM_X NAN INFINITY HUGE_VAL M_PI "
    "FP_ZERO FLT_MAX DBL_EPSILON INT_MAX CHAR_BIT UCHAR_MAX SIZE_MAX INT32_MAX UINT8_C LONG_MIN "
    "EXIT_SUCCESS BUFSIZ SEEK_END RAND_MAX EDOM assert offsetof stdin I complex WEFT_TEST WEFT_FOUR"
).split()
HEADERS = "assert complex errno float.h limits math setjmp stddef.h stdint stdio stdlib string time"


def summed(names, name="sum"):
    inputs = [weft.input(each, "f32[3]") for each in names]
    total = inputs[0]
    for each in inputs[1:]:
        total = total + each
    return weft.net(inputs, [total.named("NAN_")], name=name)


def compiled(folder, *arguments):
    line = [*find_compiler().command, *STRICT, *arguments]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_values_may_have_the_names_of_macros(tmp_path):
    net = summed(MACROS)
    net.single_file(tmp_path / "sum.c", header=True)
    names = [each.removesuffix(".h") for each in HEADERS.split()]
    lines = [*(f"#include <{each}.h>" for each in names), '#include "sum.h"']
    (tmp_path / "caller.c").write_text("\n".join([*lines, "int main(void) { return 0; }", ""]))
    compiled(tmp_path, "-c", "caller.c")
    compiled(tmp_path, "-DWEFT_TEST", "sum.c", "-o", "sum", "-lm")
    for at in range(len(MACROS)):
        (tmp_path / f"{at}.raw").write_bytes(np.full(3, at, np.float32).tobytes())
    files = [f"{at}.raw" for at in range(len(MACROS))]
    done = subprocess.run(["./sum", *files], cwd=tmp_path, capture_output=True, text=True)
    wanted = sum(range(len(MACROS)))
    assert done.stdout == f"NAN_: {wanted} {wanted} {wanted}\n"


@pytest.mark.parametrize("name", ["math", "features", "String"])
def test_no_header_is_named_like_one_of_the_c_library(name, tmp_path):
    made = summed("xy", name).export(tmp_path / "kit")
    assert made.files.header[0] == f"{name}_net.h"
    text = f'#include <math.h>\n#include "{name}_net.h"\n'
    (tmp_path / "caller.c").write_text(
        f"{text}double root(double x);\ndouble (*call)(double) = sqrt;\n"
    )
    compiled(tmp_path, "-Ikit", "-c", "caller.c")
    library = tmp_path / "library"
    assert summed("xy", name).deploy(library).name == f"{name.lower()}_net"
    with pytest.raises(UserError, match="neither main nor the name of a C header"):
        summed("xy").export(tmp_path / "other", name=name)


def test_a_network_may_be_named_main(tmp_path):
    assert "main_net.c" in [
        name for name, _ in summed("xy", "main").export(tmp_path / "kit").files.sources
    ]


def test_long_names_are_shortened(tmp_path):
    name = "layer_" * 60
    net = summed("xy", name)
    assert net.export(tmp_path / "kit").files.name == name[:100]
    assert net.deploy(tmp_path / "library").name == name[:100]
    with pytest.raises(UserError, match="at most 100 characters"):
        net.export(tmp_path / "other", name="n" * 101)


@pytest.mark.parametrize("weights", ["file", "inside"])
def test_libraries_are_built_in_folders_of_any_name(weights, tmp_path, digits):
    folder = tmp_path / """a b,c"d'e\\f%g""" / "library"
    good("deploy", digits, "-o", folder, "--weights", weights)
    assert sorted(each.name for each in (folder / "lib").iterdir()) == [
        "libdigits.a",
        "libdigits.so",
        "libdigits.so.1",
    ]


CALLER = """
#include <stdio.h>
#include "one.h"
#include "two.h"
int main(void)
{
    static double memory[64];
    const float x[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    float first[2], second[2];
    (void)one_run(x, first, memory);
    (void)two_run(x, second, memory);
    printf("%g %g\\n", (double)first[0], (double)second[0]);
    return 0;
}
"""


@pytest.mark.parametrize("parts", [1, 0])
def test_networks_share_no_names_in_one_program(parts, tmp_path):
    sources = []
    for value, name in enumerate(("one", "two"), 1):
        weight = weft.constant(np.full((4, 2), value, np.float32))
        net = weft.trace(lambda x, w=weight: weft.ops.matmul(x, w), "f32[1,4]", name=name)
        files = net.toolkit(parts=parts).files
        for file, text in (files.header, *files.private, *files.sources):
            (tmp_path / file).write_text(text)
        sources += [file for file, _ in files.sources]
    (tmp_path / "caller.c").write_text(CALLER)
    compiled(tmp_path, "caller.c", *sources, "-o", "caller", "-lm")
    done = subprocess.run(["./caller"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "4 8\n"
