"""Builds a deployed ResNet-18 in minimal Debian systems and compares the bits of its callers.

    sudo python -m bench.check_deploy                          gcc, then zig
    sudo python -m bench.check_deploy --compilers zig          one compiler only
    sudo python -m bench.check_deploy --folder /var/tmp/roots  keeps the systems for the next run
    sudo python -m bench.check_deploy --network mobilenet_v2   another network of torchvision

Needs root, Linux, `debootstrap`, a mirror of Debian, and PyTorch with torchvision; for zig the
package `ziglang`, too.  Takes some ten minutes and 2 GB.

`weft.deploy` writes the network twice for each compiler: with its weights in a file on one
thread, and with them inside on two.  The systems have CMake, make, pkg-config, Python and one
compiler: gcc and g++, or the folder of `ziglang` and neither of the others; no Weft, no NumPy, no
PyTorch and no network.  In them the sources are built and installed with CMake, then the
examples with `find_package(weft_NAME)`, and once more with `pkg-config`.  All callers (C with the
shared and the static library, C++, Python by ctypes) must write the bits that `weft.optimize`
gives outside with the same compiler, and `ldd` must name no libraries but libc and libm.  The
exit code is 1 if a line fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weft.export.package import WeightsPlace

NAME = "deployed"
SUITE = "bookworm"
TOOLS = ("cmake", "make", "pkgconf", "python3")
PLACES: tuple[tuple[WeightsPlace, int], ...] = (("file", 1), ("inside", 2))
"""Where the weights are, and the threads of a call."""
ALLOWED = {"libc.so.6", "libm.so.6"}


@dataclass(frozen=True)
class Kind:
    """A compiler in a system.

    Attributes:
        packages: of Debian that the system has besides the tools.
        outside: commands of the compilers of C and C++ outside, split by spaces.
        inside: the same in the system.
        absent: programs that the system must not have.
    """

    packages: tuple[str, ...]
    outside: str
    inside: tuple[str, str]
    absent: tuple[str, ...]


KINDS = {
    "gcc": Kind(("gcc", "g++", "libc6-dev"), "gcc", ("gcc", "g++"), ("clang", "zig")),
    "zig": Kind(
        (),
        f"{sys.executable} -m ziglang cc",
        ("/opt/zig/zig cc", "/opt/zig/zig c++"),
        ("cc", "gcc", "g++", "clang"),
    ),
}


class Failed(Exception):
    """A check that did not hold, or a command that failed."""


def run(*command: object, **environment: str) -> str:
    """Runs a command.

    Args:
        command: its words.
        environment: variables besides those of this process.

    Returns:
        What it prints.
    """
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        told = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        raise Failed(f"{shlex.join(str(word) for word in command)}: {done.returncode}\n{told}")
    return done.stdout


@dataclass(frozen=True)
class System:
    """A minimal Debian in a folder, with a compiler.

    Attributes:
        root: the folder.
        kind: the compiler.
    """

    root: Path
    kind: Kind

    def make(self, mirror: str) -> None:
        """Installs it, unless that was done before.

        Args:
            mirror: of Debian.
        """
        done = self.root / "made"
        if not done.exists():
            packages = ",".join([*TOOLS, *self.kind.packages])
            options = ("--variant=minbase", f"--include={packages}")
            run("debootstrap", *options, SUITE, self.root, mirror)
            if "zig" in self.kind.inside[0]:
                shutil.copytree(_ziglang(), self.root / "opt" / "zig", dirs_exist_ok=True)
            done.touch()
        for program in self.kind.absent:
            if self.shell(f"command -v {program} || true"):
                raise Failed(f"{self.root} has {program}")

    def shell(self, script: str) -> str:
        """Runs a shell script in it, without network and with an environment of its own.

        Args:
            script: the text.

        Returns:
            What it prints.
        """
        cc, cxx = self.kind.inside
        named = {"CC": cc, "CXX": cxx, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        return run(
            *("unshare", "--mount", "--pid", "--net", "--fork", "--mount-proc"),
            *("--root", self.root, "--wd", "/"),
            *("env", "-i", *(f"{name}={value}" for name, value in named.items())),
            *("sh", "-eu", "-c", script),
        )


def _ziglang() -> Path:
    found = importlib.util.find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        raise Failed("ziglang is not installed")
    return Path(found.submodule_search_locations[0])


@contextmanager
def _compiler(command: str) -> Iterator[None]:
    before = os.environ.get("CC")
    os.environ["CC"] = command
    try:
        yield
    finally:
        if before is None:
            del os.environ["CC"]
        else:
            os.environ["CC"] = before


def deployed(
    network: str, kind: Kind, place: WeightsPlace, threads: int, folder: Path
) -> list[bytes]:
    """Deploys a network, with the compiler of that kind outside.

    Args:
        network: of torchvision.
        kind: the compiler.
        place: of the weights.
        threads: of a call.
        folder: for the package.

    Returns:
        What ``weft.optimize`` gives for the example.
    """
    import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    import weft  # noqa: PLC0415
    from bench.zoo import vision  # noqa: PLC0415

    torch.manual_seed(0)
    module = vision.get_model(network).eval()
    example = torch.randn(1, 3, 224, 224)
    with _compiler(kind.outside), torch.inference_mode():
        weft.deploy(module, example, folder, name=NAME, weights=place, threads=threads)
        fast = weft.optimize(module, example, threads=threads, measure=False)
        return [fast(example).numpy().tobytes()]


BUILD = f"""
rm -rf /tmp/work
mkdir /tmp/work
cd /tmp/work
cp -r /package/examples examples
cmake -S /package -B build
cmake --build build
cmake --install build --prefix /tmp/work/prefix
cmake -S examples -B made -DCMAKE_PREFIX_PATH=/tmp/work/prefix
cmake --build made
export PKG_CONFIG_PATH=/tmp/work/prefix/lib/pkgconfig
$CC examples/example.c $(pkg-config --cflags --libs weft_{NAME}) -o made/example_pkgconfig
$CC examples/example.c $(pkg-config --cflags weft_{NAME}) prefix/lib/lib{NAME}.a \
    $(pkg-config --libs --static weft_{NAME} | sed "s/-l{NAME}//") -o made/example_archive
"""
CALLERS = {
    "C, shared": "made/example",
    "C, static": "made/example_static",
    "C++": "made/example_cpp",
    "ctypes": f"python3 -S -E examples/example.py prefix/lib/lib{NAME}.so",
    "C, pkg-config, shared": "made/example_pkgconfig",
    "C, pkg-config, static": "made/example_archive",
}


def check(system: System, package: Path, wanted: Sequence[bytes]) -> list[str]:
    """Builds a package in a system and runs all of its callers.

    Args:
        system: where.
        package: what ``weft.deploy`` wrote.
        wanted: the bytes of the outputs.

    Returns:
        What was found, line by line.
    """
    inside = system.root / "package"
    shutil.rmtree(inside, ignore_errors=True)
    shutil.copytree(package, inside, symlinks=True)
    # Only sources: the libraries are built in the system.
    shutil.rmtree(inside / "lib")
    work = system.root / "tmp" / "work"
    system.shell(BUILD)
    weights = "".join(
        f" /tmp/work/{path.relative_to(work)}" for path in (work / "prefix").rglob("*.weights")
    )
    inputs = [path.name for path in sorted((package / "examples").glob("*.bin"))]
    outputs = [path.name for path in sorted((package / "examples").glob("*.out"))]
    lines: list[str] = []
    for caller, command in CALLERS.items():
        given = "".join(f" examples/{name}" for name in inputs)
        made = "".join(f" {name}" for name in outputs)
        path = "LD_LIBRARY_PATH=/tmp/work/prefix/lib"
        system.shell(f"cd /tmp/work; rm -f {made}; {path} {command}{weights}{given}{made}")
        if [(work / name).read_bytes() for name in outputs] != list(wanted):
            raise Failed(f"{caller}: other bits than weft.optimize")
        lines.append(f"{caller}: the bits of weft.optimize")
    told = system.shell(f"ldd /tmp/work/prefix/lib/lib{NAME}.so")
    names = {line.split()[0] for line in told.splitlines()}
    more = {name for name in names if not name.startswith(("linux-vdso", "/lib64/ld-linux"))}
    lines += ["ldd:", *told.rstrip().splitlines()]
    if not more <= ALLOWED:
        raise Failed("\n".join([*lines, f"needs {', '.join(sorted(more - ALLOWED))}"]))
    return lines


def main() -> int:
    """Runs all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--compilers", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--network", default="resnet18", help="of torchvision")
    parser.add_argument("--folder", type=Path, help="for the systems; a temporary one otherwise")
    parser.add_argument("--mirror", default="http://deb.debian.org/debian")
    args = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("needs root, for debootstrap and chroot")
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        for compiler in args.compilers:
            system = System((args.folder or Path(temporary)) / compiler, KINDS[compiler])
            try:
                system.make(args.mirror)
            except Failed as error:
                print(f"{compiler}: {error}")
                return 1
            print(f"{compiler}: {system.shell('$CC --version').splitlines()[0]}", flush=True)
            for place, threads in PLACES:
                package = Path(temporary) / f"{compiler}-{place}"
                wanted = deployed(args.network, system.kind, place, threads, package)
                print(f"  weights {place}, {threads} threads", flush=True)
                try:
                    print("\n".join(f"    {line}" for line in check(system, package, wanted)))
                except Failed as error:
                    print(f"    FAILED {error}")
                    wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
