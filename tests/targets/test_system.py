"""What the system tells of this machine, and the targets that it runs."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from weft.dtypes import DType
from weft.loops.instruction import instruction
from weft.runtime.limits import processor_name
from weft.targets import system
from weft.targets.find import host, runs_here, target

AVX512 = "sse2 avx2 fma bmi2 avx512f avx512bw avx512cd avx512dq avx512vl"
Fake = Callable[..., None]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Writes what a machine says of itself."""

    def write(machine: str, cpuinfo: dict[str, str], **caches: str) -> None:
        monkeypatch.setattr(platform, "machine", lambda: machine)
        text = "".join(f"{key}\t: {value}\n" for key, value in cpuinfo.items())
        (tmp_path / "cpuinfo").write_text(f"{text}\nprocessor : 1\nmodel : 99\n")
        monkeypatch.setattr(system, "_CPUINFO", tmp_path / "cpuinfo")
        monkeypatch.setattr(system, "_CACHES", tmp_path)
        for number, (level, size) in enumerate(caches.items()):
            folder = tmp_path / f"index{number}"
            folder.mkdir()
            kind = "Instruction" if level.endswith("i") else "Unified"
            for name, value in (("type", kind), ("level", level[1]), ("size", size)):
                (folder / name).write_text(f"{value}\n")
        system.cpuinfo.cache_clear()

    yield write
    system.cpuinfo.cache_clear()


def x86(vendor: str, family: int, model: int, flags: str = AVX512) -> dict[str, str]:
    return {
        "vendor_id": vendor,
        "cpu family": str(family),
        "model": str(model),
        "flags": flags,
    }


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "core"),
    [
        ("x86_64", x86("AuthenticAMD", 25, 0x11), "zen4"),
        ("x86_64", x86("AuthenticAMD", 25, 0x21), "zen3"),
        ("x86_64", x86("AuthenticAMD", 26, 0x44), "zen5"),
        ("x86_64", x86("GenuineIntel", 6, 0x55), "skylake-x"),
        ("x86_64", x86("GenuineIntel", 6, 0x6A), "ice-lake"),
        ("x86_64", x86("GenuineIntel", 6, 0x8F), "golden-cove"),
        ("x86_64", x86("GenuineIntel", 6, 0x3F), "haswell"),
        # Unknown models are told by their instructions.
        ("x86_64", x86("GenuineIntel", 6, 0xA7, f"{AVX512} avx512_vbmi2"), "ice-lake"),
        (
            "x86_64",
            x86("GenuineIntel", 6, 0xA7, f"{AVX512} avx512_vbmi2 avx512_bf16"),
            "golden-cove",
        ),
        ("x86_64", x86("GenuineIntel", 19, 1), "skylake-x"),
        ("x86_64", x86("AuthenticAMD", 27, 1, f"{AVX512} vaes"), "zen4"),
        ("x86_64", x86("AuthenticAMD", 27, 1, f"{AVX512} avx512_vp2intersect"), "zen5"),
        ("x86_64", x86("AuthenticAMD", 27, 1, "sse2 avx2 fma bmi2 vaes"), "zen3"),
        ("x86_64", x86("GenuineIntel", 6, 1, "sse2"), ""),
        ("x86_64", x86("CentaurHauls", 7, 1), ""),
        ("x86_64", {"model": "?"}, ""),
        ("aarch64", {"CPU implementer": "0x41", "CPU part": "0xd08"}, "cortex-a72"),
        ("aarch64", {"CPU implementer": "0x61", "CPU part": "0x22"}, ""),
    ],
)
def test_cores(fake: Fake, machine: str, cpuinfo: dict[str, str], core: str) -> None:
    fake(machine, cpuinfo)
    assert system.core() == host().core == core


def test_processors_are_named_with_their_core(fake: Fake) -> None:
    hidden = {**x86("AuthenticAMD", 25, 0x11), "model name": "AMD EPYC"}
    fake("x86_64", hidden)
    assert processor_name() == "AMD EPYC (zen4)"
    fake("x86_64", {**hidden, "cpu family": "26"})
    assert processor_name() == "AMD EPYC (zen5)"
    fake("x86_64", {**hidden, "model": "?"})
    assert processor_name() == "AMD EPYC"


def test_caches_are_those_of_the_machine(fake: Fake) -> None:
    cpuinfo = x86("GenuineIntel", 6, 0x6A, f"{AVX512} avx512_vnni")
    fake("x86_64", cpuinfo, L1i="32K", L1="48K", L2="1280K", L3="24M")
    here, level = host(), target("x86-avx512")
    assert here.caches == (48 << 10, 1280 << 10)
    assert here.cached == 24 << 20
    assert here.features == (*level.features, "avx512_vnni")
    assert "-mavx512vnni" in here.flags
    # All figures but these and its core's rates are those of the level.
    assert (here.registers, here.costs, here.near) == (level.registers, level.costs, level.near)
    assert host("avx512") == level


def test_rates_are_those_of_its_core(fake: Fake) -> None:
    fake("x86_64", x86("AuthenticAMD", 25, 0x11), L1="32K", L2="512K", L3="16M")
    here, core = host(), target("zen4")
    assert here.caches == (32 << 10, 512 << 10)
    assert here.cached == 16 << 20
    assert here.features == target("x86-avx512").features
    assert (here.vectors, here.issue, here.costs) == (core.vectors, core.issue, core.costs)
    assert (here.multiply_adds, here.far, here.memory) == (1.0, core.far, core.memory)
    assert core.far < target("x86-avx512").far


def test_rates_of_wider_vectors_than_the_system_shows_are_not_taken(fake: Fake) -> None:
    fake("x86_64", x86("AuthenticAMD", 25, 0x11, "sse2 avx2 fma bmi2"))
    here, level = host(), target("x86-avx2")
    assert here.core == "zen4"
    assert (here.vectors, here.issue, here.far) == (level.vectors, level.issue, level.far)


@pytest.mark.parametrize(
    ("told", "features", "flags"),
    [
        ("fp asimd asimddp", (), ()),
        ("fp asimd asimddp i8mm bf16", ("bf16",), ("-march=armv8.2-a+bf16",)),
    ],
)
def test_bfloat16_on_arm(
    fake: Fake, told: str, features: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    fake("aarch64", {"CPU implementer": "0x41", "CPU part": "0xd40", "Features": told})
    assert (host().features, host().flags) == (features, flags)


@pytest.mark.parametrize("allowed", [True, False])
def test_tiles_are_those_that_the_system_lets_a_process_use(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    told = f"{AVX512} avx512_vnni avx512_bf16 amx_tile amx_bf16 amx_int8"
    fake("x86_64", x86("GenuineIntel", 6, 0x8F, told))
    monkeypatch.setattr(system, "may_use_tiles", lambda: allowed)
    tiles = {"-mamx-tile", "-mamx-bf16"}
    assert ("amx_bf16" in host().features) == (tiles <= {*host().flags}) == allowed
    assert runs_here(target("sapphire-rapids")) == allowed
    assert runs_here(target("golden-cove"))
    assert host().cycles(instruction("tilerelease")) == 13
    assert host().memories[-1].streams == target("golden-cove").memories[-1].streams == 8


def test_asking_for_tiles_is_harmless() -> None:
    assert not system.may_use_tiles() or "amx_tile" in system.cpuinfo()["flags"].split()


@pytest.mark.parametrize(
    "caches",
    [{}, {"L1": "0K", "L2": "none"}, {"L1": "64K", "L2": "32K"}, {"L2": "64M"}],
)
def test_caches_that_no_core_has_stay_as_they_are(fake: Fake, caches: dict[str, str]) -> None:
    fake("x86_64", x86("AuthenticAMD", 25, 0x11), **caches)
    assert host().memories == target("zen4").memories


def test_targets_that_this_machine_runs(fake: Fake) -> None:
    fake("x86_64", x86("GenuineIntel", 6, 0x55))
    found = {name for name in ("x86-sse2", "haswell", "skylake-x") if runs_here(target(name))}
    assert found == {"x86-sse2", "haswell", "skylake-x"}
    others = ("ice-lake", "zen4", "cortex-a53", "cortex-m4", "rv64gc")
    assert not any(runs_here(target(name)) for name in others)
    assert runs_here(target("generic"))


def test_wide_registers_that_are_taken_in_turns() -> None:
    halves, whole = target("zen4"), target("zen5")
    assert halves.vector_bytes == whole.vector_bytes == 64
    assert (halves.multiply_adds, whole.multiply_adds) == (1.0, 2.0)
    assert (halves.loads, whole.loads) == (0.875, 1.75)
    assert [halves.whole(lanes, DType.F32) for lanes in (8, 12, 24, 40)] == [0.5, 1.0, 1.5, 2.5]
    assert [whole.whole(lanes, DType.F32) for lanes in (8, 12, 24, 40)] == [1.0, 1.0, 2.0, 3.0]
    assert target("generic").whole(40, DType.F32) == 2.0
    split = replace(whole, vectors=replace(whole.vectors, executed=16))
    assert split.multiply_adds == 0.5
