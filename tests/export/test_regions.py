"""Toolkits and C libraries whose arena is in several memory regions, on a board with two."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import weft
from tests.api.test_parameters import network
from tests.api.test_streams import STATES, detector
from tests.export.test_toolkit import make
from tests.turns import a_few
from weft.runtime.compiler import find_compiler, sanitizer_flags

REGIONS = {"DTCM": 1 << 10, "SRAM": 1 << 16}
BOARD = Path(__file__).parents[2] / "examples" / "cortex-m"
EMULATOR = (
    *("qemu-system-arm", "-M", "mps2-an500", "-nographic", "-monitor", "none", "-serial", "none"),
    *("-semihosting-config", "enable=on,target=native", "-kernel"),
)


def section(name: str) -> str:
    return f'__attribute__((section("{name}")))'


@pytest.mark.parametrize("case", a_few(["blob", "threads", "parameters", "states"]))
def test_the_self_test_passes(case: str, tmp_path: Path) -> None:
    if case == "states":
        net = weft.load(detector(tmp_path / "detector.onnx")).with_state(STATES)
        made = net.export(tmp_path / "out", "generic", regions={**REGIONS, "DTCM": 512})
    else:
        options = {
            "blob": {"weights": "blob", "flavour": "c89"},
            "threads": {"threads": 2, "parts": 0},
            "parameters": {"parameters": "runtime"},
        }[case]
        made = network(1).export(tmp_path / "out", "generic", regions=REGIONS, **options)
    assert [each.name for each in made.report.arenas] == ["DTCM", "SRAM"]
    assert all(each.bytes for each in made.report.arenas)
    record = json.loads((tmp_path / "out" / "toolkit.json").read_text())
    assert record["regions"] == {each.name: each.bytes for each in made.report.arenas}
    done = make(tmp_path / "out", "test")
    assert done.returncode == 0, done.stdout + done.stderr
    if case == "states" and sanitizer_flags(find_compiler()):
        done = make(tmp_path / "out", "sanitize")
        assert done.returncode == 0, done.stdout + done.stderr
    picture = (tmp_path / "out" / "memory.svg").read_text()
    assert picture.count('font-weight="bold"') == 2
    assert all(f">{name}, {size:,} bytes<" in picture for name, size in record["regions"].items())
    assert "bytes at SRAM 0" in picture
    readme = (tmp_path / "out" / "README.md").read_text()
    declared = (
        r"arena_dtcm\[\w+_ARENA_DTCM_BYTES \+ 1\] .*aligned\(\w+_ALIGNMENT\).* /\* in DTCM \*/"
    )
    assert re.search(declared, readme)
    assert f"| arena in DTCM (read and written; the caller's) | {record['regions']['DTCM']} |" in (
        readme
    )


def test_the_regions_are_checked_one_by_one(tmp_path: Path) -> None:
    files = weft.load("examples/digits/digits.onnx").source("generic", regions=REGIONS)
    (_, source), (_, header) = files.sources[0], files.header
    assert "void *arena_dtcm, void *arena_sram);" in " ".join(header.split())
    assert "#define DIGITS_ARENA_DTCM_BYTES 1024" in header
    assert "#define DIGITS_ARENA_SRAM_BYTES 4096" in header
    assert "DIGITS_ARENA_BYTES" not in header
    (tmp_path / "digits.h").write_text(header)
    (tmp_path / "digits.c").write_text(source)
    (tmp_path / "main.c").write_text(
        """
#include "digits.h"
#include <stddef.h>
static float image[64], scores[10];
static _Alignas(64) unsigned char dtcm[DIGITS_ARENA_DTCM_BYTES], sram[DIGITS_ARENA_SRAM_BYTES];
int main(void)
{
    return digits_run(image, scores, dtcm, sram) != 0 ||
           digits_run(image, scores, NULL, sram) != DIGITS_NULL_POINTER ||
           digits_run(image, scores, dtcm, NULL) != DIGITS_NULL_POINTER ||
           digits_run(image, scores, dtcm, sram + 4) != DIGITS_MISALIGNED;
}
"""
    )
    command = [*find_compiler().command, "-std=c11", "-O1", "main.c", "digits.c", "-lm"]
    subprocess.run([*command, "-o", "main"], check=True, cwd=tmp_path)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


@pytest.mark.thorough
def test_a_c_library_takes_one_block_for_all_regions(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    net = weft.load("examples/digits/digits.onnx")
    net.deploy(tmp_path / "lib", regions=REGIONS)
    text = (tmp_path / "lib" / "src" / "weft_digits.c").read_text()
    assert "(size_t)DIGITS_ARENA_DTCM_BYTES + (size_t)DIGITS_ARENA_SRAM_BYTES + 1u" in text
    assert "context->arena.start, context->arena.start + 1024" in " ".join(text.split())
    for command in (
        ("cmake", "-S", "lib", "-B", "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'to'}"),
        ("cmake", "--build", "build"),
        ("cmake", "--install", "build"),
        ("cmake", "-S", "lib/examples", "-B", "own", f"-DCMAKE_PREFIX_PATH={tmp_path / 'to'}"),
        ("cmake", "--build", "own"),
    ):
        done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_an_emulated_cortex_m7_has_each_region_in_its_own_memory(tmp_path: Path) -> None:
    for tool in ("arm-none-eabi-gcc", EMULATOR[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    made = network(1).export(tmp_path / "out", "stm32f767", regions=REGIONS)
    assert [(each.name, bool(each.bytes)) for each in made.report.arenas] == [
        ("DTCM", True),
        ("SRAM", True),
    ]
    # The board has memory at 0x20000000, of which the DTCM takes a part, and at 0x60000000.
    script = (BOARD / "mps2.ld").read_text()
    script = script.replace(
        "    RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 4M\n",
        "    DTCM (rw) : ORIGIN = 0x20000000, LENGTH = 128K\n"
        "    RAM (rwx) : ORIGIN = 0x20020000, LENGTH = 3M\n"
        "    SRAM (rw) : ORIGIN = 0x60000000, LENGTH = 384K\n",
    ).replace(
        "    .data :",
        "    .dtcm (NOLOAD) : { *(.dtcm) } > DTCM\n"
        "    .sram (NOLOAD) : { *(.sram) } > SRAM\n"
        "    .data :",
    )
    (tmp_path / "board.ld").write_text(script)
    program = tmp_path / "test.elf"
    subprocess.run(
        [
            *("arm-none-eabi-gcc", "-std=c99", "-O2", *made.flags, "--specs=rdimon.specs"),
            *(f"-DNET_ARENA_{name}_SECTION={section('.' + name.lower())}" for name in REGIONS),
            *(str(tmp_path / "out" / name) for name in ("net.c", "net_test.c")),
            *(str(BOARD / "startup.c"), "-T", str(tmp_path / "board.ld"), "-lm", "-o"),
            str(program),
        ],
        check=True,
    )
    listed = subprocess.run(
        ["arm-none-eabi-objdump", "-t", program], check=True, capture_output=True, text=True
    ).stdout
    found = {
        name: (place, int(at, 16) >> 20)
        for at, place, name in re.findall(
            r"^(\w+) .* (\.\w+)\t\w+ (arena_\w+_memory)$", listed, re.M
        )
    }
    assert found == {
        "arena_dtcm_memory": (".dtcm", 0x200),
        "arena_sram_memory": (".sram", 0x600),
    }
    command = [*EMULATOR, str(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\w+: largest difference .*: ok$", done.stdout, re.M)
