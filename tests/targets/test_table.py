"""Which machine code is generated for when none, or only a level of one, is named."""

from __future__ import annotations

import platform
from importlib.resources import files

import numpy as np
import pytest

import weft
from tests.models import networks
from weft.errors import UserError
from weft.targets import system
from weft.targets.find import SIMD, TARGETS, host, target

AVX2 = frozenset("sse2 avx avx2 fma bmi2".split())
AVX512 = AVX2 | frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())


def machine(monkeypatch: pytest.MonkeyPatch, name: str, flags: frozenset[str]) -> None:
    monkeypatch.setattr(platform, "machine", lambda: name)
    monkeypatch.setattr(system, "cpu_flags", lambda: flags)


def test_every_file_is_a_target() -> None:
    stems = {
        file.name.partition(".")[0] for file in files("weft.targets").joinpath("data").iterdir()
    }
    assert stems == set(TARGETS)
    for name in TARGETS:
        assert target(name).doc.endswith(".")


@pytest.mark.parametrize(
    ("name", "flags", "wide", "levels"),
    [
        ("x86_64", AVX512, "x86-avx512", ["sse2", "avx2", "avx512"]),
        ("AMD64", AVX2, "x86-avx2", ["sse2", "avx2"]),
        ("x86_64", AVX512 - {"fma"}, "x86-avx512", ["sse2", "avx512"]),
        ("x86_64", frozenset(), "x86-sse2", ["sse2"]),
        ("aarch64", frozenset(), "aarch64-neon", ["neon"]),
        ("riscv64", frozenset(), "generic", []),
    ],
)
def test_the_levels_of_a_machine(monkeypatch, name, flags, wide, levels):
    machine(monkeypatch, name, flags)
    here = host()
    assert here.name == "host"
    assert (here.vector_bytes, here.registers) == (
        target(wide).vector_bytes,
        target(wide).registers,
    )
    levels = ["none", *levels]
    for level in SIMD:
        if level in levels:
            assert host(level) == target(SIMD[level])
        else:
            with pytest.raises(UserError) as caught:
                host(level)
            assert caught.value.got == level
            assert caught.value.fix == f"Use one of {', '.join(levels)}."


def test_what_is_no_level(monkeypatch):
    machine(monkeypatch, "x86_64", AVX2)
    with pytest.raises(UserError, match="vector instructions must be of this machine"):
        host("avx3")


X86 = platform.machine().lower() in ("x86_64", "amd64")


@pytest.mark.skipif(not X86, reason="the levels are those of x86-64")
def test_a_network_with_fewer_instructions_than_the_machine_has():
    net = weft.load(networks.path_of("digits"))
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 8)).astype(np.float32)
    (shape,) = (type.dims for type in net.bound().inputs.values())
    x = np.resize(x, shape)
    wide, narrow = net.compile(), net.compile(simd="sse2")
    assert "v4f" in narrow.library.files.sources[-1][1]
    assert "v8f" not in "".join(text for _, text in narrow.library.files.sources)
    np.testing.assert_allclose(narrow(x), wide(x), rtol=1e-5, atol=1e-6)
