"""Toolkits as packages of build systems, their records, and templates in place of Weft's."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import weft
from tests.export.test_toolkit import make
from weft.errors import UserError
from weft.export.exports import LAYOUTS
from weft.ir.text import parse
from weft.ops.table import OPS
from weft.runtime.compiler import find_compiler
from weft.runtime.emulators import MACHINES

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
ARDUINO = """\
#include <cstdio>
static unsigned long micros() { return 0; }
static void delay(unsigned long) {}
static struct {
    void begin(long) {}
    void print(const char *text) { std::printf("%s", text); }
    void print(char character) { std::printf("%c", character); }
    void print(double number) { std::printf("%.2f", number); }
    void print(long number) { std::printf("%ld", number); }
    void print(unsigned long number) { std::printf("%lu", number); }
    void println() { std::printf("\\n"); }
    template <typename T> void println(T what) { print(what); println(); }
    void println(int number) { print((long)number); println(); }
} Serial;
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits for a board, with every layout."""
    found = tmp_path_factory.mktemp("layouts") / "out"
    weft.load(DIGITS).export(found, "stm32l4r5", also=LAYOUTS)
    return found


def files_of(folder: Path) -> Iterator[str]:
    """The files of a folder and those below it."""
    return (
        each.relative_to(folder).as_posix() for each in sorted(folder.rglob("*")) if each.is_file()
    )


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **more},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_kernel_is_tested_alone(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    done = make(copy, "test-steps", "run")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("step")]
    assert len(lines) == 7
    assert all(line.endswith(": ok") for line in lines)
    assert "sample 0" in done.stdout
    # A kernel with another bias: its step is the only one that is wrong.
    source = copy / "digits.c"
    text = source.read_text()
    spoilt = re.sub(
        r"(w_\w*bias\w*\[16\] DIGITS_WEIGHTS_SECTION = \{\n)", r"\g<1>9,", text, count=1
    )
    assert spoilt != text
    spoilt = re.sub(r"(w_\w*bias\w*)\[16\] DIGITS", r"\1[17] DIGITS", spoilt, count=1)
    source.write_text(spoilt)
    done = make(copy, "test-steps")
    assert done.returncode != 0
    wrong = [line for line in done.stdout.splitlines() if line.endswith(": WRONG")]
    assert len(wrong) == 1


def test_the_readme_says_what_integers_stand_for(tmp_path: Path) -> None:
    text = """graph g(%x: u8[2,3]) -> (%y) {
      const %s: f32[] = [0.5]
      const %z: u8[] = [7]
      %t: u8[3,2] = Transpose(%x) {perm=(1, 0)}
      %f: f32[3,2] = DequantizeLinear(%t, %s, %z)
      %r: f32[3,2] = Sqrt(%f)
      %y: u8[3,2] = QuantizeLinear(%r, %s, %z)
    }"""
    net = weft.Net(parse(text, lambda op: OPS[op].attributes))
    net.export(tmp_path / "out", "cortex-m4")
    readme = (tmp_path / "out" / "README.md").read_text()
    for name in ("x", "y"):
        row = f"| `{name}` | `0.5 * (integer - 7)` | `round(number / 0.5) + 7`, from 0 to 255 |"
        assert row in readme


def test_integers_of_every_step_have_the_same_bits(tmp_path: Path) -> None:
    net = weft.Net(
        parse(
            """graph peaks(%x: i8[1,4,6,6]) -> (%z) {
              %m: i8[1,1,6,6] = ReduceMax(%x) {axes=(1,), keepdims=1}
              %z: i8[1,4,6,6] = Max(%x, %m)
            }""",
            lambda op: OPS[op].attributes,
        )
    )
    net.export(tmp_path / "out", "cortex-m4")
    done = make(tmp_path / "out", "check")
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [line for line in done.stdout.splitlines() if line.startswith("step")]
    assert steps
    assert all("bit-equal: ok" in line for line in steps)


def test_quantized_sums_of_floats_may_be_one_step_off(tmp_path: Path) -> None:
    # Many of these means lie half way between two integers, where the last bit of a float decides.
    net = weft.Net(
        parse(
            """graph wide(%x: i8[1,8,8,7]) -> (%y) {
              const %s: f32[] = [0.04]
              const %z: i8[] = [0]
              const %q: f32[] = [0.02]
              %f: f32[1,8,8,7] = DequantizeLinear(%x, %s, %z)
              %r: f32[1,8,12,10] = Resize(%f) {mode="linear", scales=(1.0, 1.0, 1.5, 1.5),
                coordinate_transformation_mode="asymmetric"}
              %y: i8[1,8,12,10] = QuantizeLinear(%r, %q, %z)
            }""",
            lambda op: OPS[op].attributes,
        )
    )
    made = net.export(tmp_path / "out", "cortex-m4")
    assert [each.tolerance for each in made.golden.outputs] == [1.0]
    done = make(tmp_path / "out", "check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
def test_cmake_builds_and_tests(folder: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None or find_compiler().kind == "zig":
        pytest.skip("cmake or a compiler of its own is not installed")
    run("cmake", "-S", folder, "-B", tmp_path / "alone", cwd=tmp_path)
    run("cmake", "--build", tmp_path / "alone", cwd=tmp_path)
    told = run("ctest", "--test-dir", tmp_path / "alone", cwd=tmp_path)
    assert "100% tests passed" in told
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C)\n"
        f'add_subdirectory("{folder}" digits)\nadd_executable(app "{folder}/main.c")\n'
        "target_link_libraries(app digits)\n"
    )
    run("cmake", "-S", ".", "-B", "within", cwd=tmp_path)
    run("cmake", "--build", "within", cwd=tmp_path)
    assert "scores:" in run(tmp_path / "within" / "app", cwd=tmp_path)
    assert not (tmp_path / "within" / "digits" / "digits_test").exists()


def test_an_arduino_library(folder: Path, tmp_path: Path) -> None:
    properties = dict(
        line.split("=", 1) for line in (folder / "library.properties").read_text().splitlines()
    )
    assert {"name", "version", "author", "maintainer", "sentence", "category"} <= {*properties}
    (tmp_path / "Arduino.h").write_text(ARDUINO)
    sketch = (folder / "examples" / "sample" / "sample.ino").read_text()
    (tmp_path / "sketch.cpp").write_text(
        f'#include "Arduino.h"\n{sketch}\nint main() {{ setup(); loop(); return 0; }}\n'
    )
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    c = find_compiler().command
    run(*c, "-O1", "-c", folder / "src" / "digits.c", "-o", "digits.o", cwd=tmp_path)
    flags = ("-Wall", "-Wextra", "-Werror", "-I", folder / "src")
    run(compiler, *flags, "sketch.cpp", "digits.o", "-lm", "-o", "sketch", cwd=tmp_path)
    assert "scores: " in run(tmp_path / "sketch", cwd=tmp_path)


def test_a_cmsis_pack_and_a_zephyr_module_name_files_that_exist(folder: Path) -> None:
    pack = ElementTree.parse(folder / "Weft.digits.pdsc").getroot()
    assert (pack.findtext("vendor"), pack.findtext("name")) == ("Weft", "digits")
    named = [each.attrib["name"] for each in pack.iter("file")]
    assert {"digits.c", "digits.h", "main.c"} <= {*named}
    assert all((folder / name).is_file() for name in named)
    assert [each.attrib["Dcore"] for each in pack.iter("require")] == ["Cortex-M4"]
    module = folder / "zephyr"
    assert (
        "name: digits\nbuild:\n  cmake: zephyr\n  kconfig: zephyr/Kconfig\n"
        in (module / "module.yml").read_text()
    )
    listed = re.findall(r"\.\./(\w+\.c)", (module / "CMakeLists.txt").read_text())
    assert listed == ["digits.c", "main.c"]
    assert "config WEFT_DIGITS\n" in (module / "Kconfig").read_text()


ZEPHYR = """\
cmake_minimum_required(VERSION 3.13)
project(app C)
add_library(app STATIC empty.c)
function(zephyr_library_named name)
  add_library(${name} STATIC)
  set(ZEPHYR_CURRENT_LIBRARY ${name} PARENT_SCOPE)
endfunction()
function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_library_compile_definitions)
  target_compile_definitions(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_include_directories)
  include_directories(${ARGN})
  target_include_directories(app PRIVATE ${ARGN})
endfunction()
set(CONFIG_WEFT_DIGITS y)
set(CONFIG_WEFT_DIGITS_WEIGHTS_SECTION .network)
set(CONFIG_WEFT_DIGITS_SAMPLE y)
"""


def test_the_functions_of_zephyr_get_what_they_take(folder: Path, tmp_path: Path) -> None:
    """With functions of Zephyr's names and parameters: Zephyr itself is too large for a test."""
    if shutil.which("cmake") is None or find_compiler().kind == "zig":
        pytest.skip("cmake or a compiler of its own is not installed")
    (tmp_path / "empty.c").write_text("extern int nothing;\n")
    (tmp_path / "CMakeLists.txt").write_text(f'{ZEPHYR}add_subdirectory("{folder}/zephyr" z)\n')
    run("cmake", "-S", ".", "-B", "build", cwd=tmp_path)
    run("cmake", "--build", "build", cwd=tmp_path)
    (library,) = (tmp_path / "build").rglob("libdigits.a")
    assert b".network" in library.read_bytes()


def test_the_records_hold_for_every_file(folder: Path, tmp_path: Path) -> None:
    record = json.loads((folder / "manifest.json").read_text())
    assert record["model"]["sha256"] == hashlib.sha256(DIGITS.read_bytes()).hexdigest()
    hashes = {each["path"]: each["sha256"] for each in record["files"]}
    assert {*hashes} == {*files_of(folder)} - {"manifest.json"}
    for path, digest in hashes.items():
        assert hashlib.sha256((folder / path).read_bytes()).hexdigest() == digest
    bill = json.loads((folder / "sbom.spdx.json").read_text())
    assert (bill["spdxVersion"], bill["dataLicense"]) == ("SPDX-2.3", "CC0-1.0")
    assert {each["fileName"] for each in bill["files"]} == {
        f"./{path}" for path in hashes if path != "sbom.spdx.json"
    }
    identities = {each["SPDXID"] for each in (*bill["files"], *bill["packages"], bill)}
    for each in bill["relationships"]:
        assert {each["spdxElementId"], each["relatedSpdxElement"]} <= identities
    weft.load(DIGITS).export(tmp_path / "again", "stm32l4r5", also=LAYOUTS)
    for path in files_of(folder):
        assert (tmp_path / "again" / path).read_bytes() == (folder / path).read_bytes()


def test_the_page_has_every_layer(folder: Path) -> None:
    page = (folder / "REPORT.html").read_text()
    assert page.count('<td class="layers"') == 7
    assert "90,624" in page  # multiply-accumulates
    assert "estimated cycles" in page
    assert "of 640.0 KiB" in page
    assert "fold-batch-norm" in page
    assert 'aria-label="memory map of digits"' in page


def test_templates_of_a_folder(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "NOTICE.jinja").write_text("{{ name }} of ours\n")
    net = weft.load(DIGITS)
    net.export(tmp_path / "out", "cortex-m4", templates=own)
    assert (tmp_path / "out" / "NOTICE").read_text() == "digits of ours\n"
    (own / "README.jinja").write_text("")
    with pytest.raises(UserError) as unknown:
        net.export(tmp_path / "out", "cortex-m4", templates=own)
    assert unknown.value.rule == "a folder of templates has files named like Weft's own"
    assert "README.md.jinja" in unknown.value.fix
    (own / "README.jinja").rename(own / "README.md.jinja")
    (own / "README.md.jinja").write_text("{{ nothing }}")
    with pytest.raises(UserError, match="must fit the facts"):
        net.export(tmp_path / "out", "cortex-m4", templates=own)
    with pytest.raises(UserError, match="templates must be in a folder"):
        net.export(tmp_path / "out", "cortex-m4", templates=tmp_path / "none")


def commands(readme: str, heading: str) -> Iterator[str]:
    """The indented lines of a section."""
    section = readme.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return (line[4:] for line in section.splitlines() if line.startswith("    "))


@pytest.mark.thorough
def test_the_readme_is_enough(tmp_path: Path) -> None:
    """Every command of the README as it stands, and the program that it shows."""
    missing = MACHINES["cortex-m4"].missing()
    if missing or not all(map(shutil.which, ("make", "cc", "cmake"))):
        pytest.skip(missing or "make, cc or cmake is not installed")
    image = np.random.default_rng(1).random((1, 1, 8, 8), np.float32)
    weft.load(DIGITS).export(tmp_path / "out", "stm32l4r5", inputs=[image])
    out = tmp_path / "out"
    readme = (out / "README.md").read_text()
    for heading in ("Check it on a computer", "Build it for the chip"):
        for line in commands(readme, heading):
            if "YOUR" not in line:
                run("sh", "-c", line, cwd=out, MAKEFLAGS="")
    for line in re.findall(r"^(?:Without make|With CMake): `(.+?)`", readme, re.MULTILINE):
        assert "WRONG" not in run("sh", "-c", line, cwd=out)
    program = "\n".join(commands(readme, "Call it"))
    (tmp_path / "own.c").write_text(
        f"{program}\n#include <stdio.h>\n#include <string.h>\n"
        '#include "digits_golden.h"\nint main(void) {\n'
        "    memcpy(image, golden_input_0, sizeof image);\n"
        '    printf("%d %d\\n", run_once(), memcmp(scores, golden_output_0, 4) != 0);\n'
        "    return 0;\n}\n"
    )
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Iout", "own.c")
    run("make", "-s", "-C", out, "libdigits.a", cwd=tmp_path, MAKEFLAGS="")
    run("cc", *flags, "out/libdigits.a", "-lm", "-o", "own", cwd=tmp_path)
    assert run(tmp_path / "own", cwd=tmp_path).split()[0] == "0"


def test_all_tests_pass_under_qemu_by_the_makefile(tmp_path: Path) -> None:
    missing = MACHINES["cortex-m4"].missing()
    if missing or shutil.which("make") is None:
        pytest.skip(missing or "make is not installed")
    image = np.ones((1, 1, 8, 8), np.float32)
    weft.load(DIGITS).export(tmp_path / "out", "cortex-m4", inputs=[image], count=True)
    told = run("make", "-s", "qemu", cwd=tmp_path / "out", MAKEFLAGS="")
    assert "stack: " in told
    assert "its own machine" not in told
    assert "0 of 7 values wrong" in told
    assert "sample 0" in told
    assert "Instructions were counted: QEMU" in (tmp_path / "out" / "REPORT.html").read_text()
