"""Makes `.venv` and installs Weft in it with the named extras.

    python3 scripts/bootstrap.py [--venv .venv] [--stamp FILE] [EXTRA ...]

The extras `test` and `dev` also bring the plugins in `plugins`, whose tests belong to Weft's.

It needs Python 3.11 or later and its standard library, nothing else: not pip, not ensurepip (Debian
packages that apart), not a C compiler, not the system's CA certificates.  Where ensurepip is
missing, pip's own wheel is fetched from the package index and checked against its sha256.  Where
there is no C compiler, the `cc` extra (zig's) is added.  pip's settings (`PIP_*`, `pip.conf`) hold
for the fetch of pip too: the index, the certificates, no index at all.
"""

from __future__ import annotations

import argparse
import configparser
import hashlib
import importlib.util
import os
import queue
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
# A release known by its hash may come over any connection, any other only over a verified one.
KNOWN_PIP = {
    "9655943313a94722b7774661c21049070f6bbb0a1516bf02f7c8d5d9201514cd",  # 25.3
    "bdb1b08f4274833d62c1aa29e20907365a2ceb950410df15fc9521bad440122b",  # 26.0.1
    "382ff9f685ee3bc25864f820aa50505825f10f5458ffff07e30a6d96e5715cab",  # 26.1.2
    "71138adf1f4ca900cdb7d289c21b7494329f2332b6d85f0e1c42108c0384ed3e",  # 26.2.1
    "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13",  # 26.3
}
PIP_OPTIONS = ["--disable-pip-version-check", "--progress-bar=off", "--no-color", "--no-input"]
# Seconds between two lines where the output is not a terminal, and the lines kept for a failure.
PERIOD = 10.0
TAIL = 30
# What pip reports, and what is shown of it.
STEPS = (
    (r"(?:Collecting|Requirement already satisfied:) (\S+)", "resolving {}"),
    (r"(?:Obtaining|Processing) (\S+)", "reading {}"),
    (r"Downloading (?:\S*/)?(\S+ \(.*\))", "downloading {}"),
    (r"Using cached (?:\S*/)?(\S+)", "taking {} from the cache"),
    (r"Installing collected packages: (.+)", "installing {}"),
    (r"((?:Building|Preparing|Installing build|Getting requirements) [^:]+)", "{}"),
)


def step_of(line: str) -> str | None:
    """What a line of pip's output says is being done, or None."""
    for pattern, text in STEPS:
        if found := re.match(pattern, line.strip()):
            return text.format(found[1])
    return None


class Progress:
    """One line that is rewritten on a terminal; elsewhere a new line every ``PERIOD`` seconds."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.started = self.shown = time.monotonic()
        self.terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    def show(self) -> None:
        now = time.monotonic()
        text = f"bootstrap: {now - self.started:3.0f} s  {self.step}"
        if self.terminal:
            print(f"\r\033[K{shortened(text)}", end="", flush=True)
        elif now - self.shown >= PERIOD:
            self.shown = now
            print(shortened(text, 100), flush=True)

    def clear(self) -> None:
        if self.terminal:
            print("\r\033[K", end="", flush=True)


def shortened(text: str, columns: int = 0) -> str:
    """Text that fits one line of the terminal, or of so many columns."""
    room = (columns or shutil.get_terminal_size().columns) - 1
    return text if len(text) <= room else text[: room - 3] + "..."


def lines_of(process: subprocess.Popen[str]) -> Iterator[str | None]:
    """The lines of a program's output as they come; None each second without one."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip())
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while True:
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        yield line


def run(command: Sequence[str | Path], step: str) -> None:
    """Runs a program and shows how far it is; its warnings, and its last lines if it fails.

    Raises:
        CalledProcessError: it failed.
    """
    progress, tail = Progress(step), deque[str](maxlen=TAIL)
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, env=environment, errors="replace", **pipes) as process:
        for line in lines_of(process):
            if line:
                tail.append(line)
                progress.step = step_of(line) or progress.step
            if line and line.startswith(("WARNING", "DEPRECATION")):
                progress.clear()
                print(line, flush=True)
                tail.pop()
            progress.show()
    progress.clear()
    if process.returncode:
        print(*tail, sep="\n", file=sys.stderr, flush=True)
        raise subprocess.CalledProcessError(process.returncode, command)


def pip_setting(name: str) -> str | None:
    """A global setting as pip would read it: the environment, then its files, nearest first."""
    variable = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if variable:
        return variable
    files = [
        Path("/etc/pip.conf"),
        Path("/etc/xdg/pip/pip.conf"),
        Path.home() / ".pip" / "pip.conf",
        Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pip" / "pip.conf",
        Path(os.environ.get("PIP_CONFIG_FILE") or os.devnull),
    ]
    parser = configparser.RawConfigParser()
    parser.read(files)
    for section in ("install", "global"):
        if parser.has_option(section, name):
            return parser.get(section, name)
    return None


def verified_context() -> ssl.SSLContext:
    certificates = pip_setting("cert")
    return ssl.create_default_context(cafile=certificates if certificates else None)


def fetch(url: str) -> tuple[bytes, bool]:
    """The content of a URL, and whether the server proved who it is."""
    request = urllib.request.Request(url, headers={"User-Agent": "weft-bootstrap"})
    try:
        with urllib.request.urlopen(request, timeout=60, context=verified_context()) as reply:
            return reply.read(), not url.startswith("http://")
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ssl.SSLCertVerificationError):
            raise
    # No usable CA certificates here (a bare container).  The caller checks against KNOWN_PIP.
    context = ssl._create_unverified_context()
    with urllib.request.urlopen(request, timeout=60, context=context) as reply:
        return reply.read(), False


def pip_releases(page: str, base: str) -> list[tuple[tuple[int, ...], str, str]]:
    """Version, URL and sha256 of every final release's wheel on an index page, newest first."""
    found = []
    for link in re.findall(r'href="([^"]+)"', page):
        url, _, fragment = urllib.parse.urljoin(base, link.replace("&amp;", "&")).partition("#")
        name = re.search(r"/pip-(\d+(?:\.\d+)*)-py3-none-any\.whl$", url)
        if name and fragment.startswith("sha256="):
            version = tuple(int(part) for part in name[1].split("."))
            found.append((version, url, fragment.removeprefix("sha256=")))
    return sorted(found, reverse=True)


def fetch_pip(folder: Path) -> Path:
    """Fetches pip's wheel from the package index, verifies it and returns its path."""
    if (pip_setting("no-index") or "no").lower() not in ("0", "no", "off", "false"):
        sys.exit(
            "bootstrap: pip is missing and `no-index` forbids fetching it; install python3-venv"
        )
    index = (pip_setting("index-url") or "https://pypi.org/simple").rstrip("/") + "/pip/"
    if index.startswith("file:"):
        index += "index.html"
    page, proved = fetch(index)
    releases = pip_releases(page.decode(), index)
    known = [release for release in releases if release[2] in KNOWN_PIP]
    if not known and not (proved and releases):
        sys.exit(
            f"bootstrap: {index} cannot be trusted (no CA certificate here vouches for it) and "
            f"offers no pip whose hash is known here; install ca-certificates or python3-venv"
        )
    _, url, digest = (known or releases)[0]
    wheel, _ = fetch(url)
    if hashlib.sha256(wheel).hexdigest() != digest:
        sys.exit(f"bootstrap: {url} does not have the sha256 {digest} that the index states")
    path = folder / url.rpartition("/")[2]
    path.write_bytes(wheel)
    return path


def make_environment(venv: Path) -> None:
    """Makes the virtual environment with pip in it, by whichever way works here."""
    python = venv / "bin" / "python"
    if not python.exists():
        without = [] if importlib.util.find_spec("ensurepip") else ["--without-pip"]
        run([sys.executable, "-m", "venv", *without, venv], "making the environment")
    if subprocess.run([python, "-c", "import pip"], capture_output=True).returncode == 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        wheel = fetch_pip(Path(folder))
        # A wheel is a zip file, and pip runs from it.
        run(
            [python, f"{wheel}/pip", "install", *PIP_OPTIONS, "--no-index", wheel], "installing pip"
        )


def has_compiler() -> bool:
    if os.environ.get("CC"):
        return True
    return any(shutil.which(name) for name in ("cc", "gcc", "clang"))


def install(venv: Path, extras: list[str]) -> None:
    projects = [f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)]
    if {"test", "dev"} & set(extras):
        projects += [str(path.parent) for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))]
    editable = [option for project in projects for option in ("--editable", project)]
    python = venv / "bin" / "python"
    run([python, "-m", "pip", "install", *PIP_OPTIONS, *editable], "starting pip")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("extras", nargs="*", help="extras of pyproject.toml, for example `test`")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv")
    parser.add_argument("--stamp", type=Path, help="a file to touch at the end")
    arguments = parser.parse_args()
    if sys.version_info < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        sys.exit(f"bootstrap: Weft needs Python {wanted} or later, got {sys.version.split()[0]}")
    extras = arguments.extras if has_compiler() else [*arguments.extras, "cc"]
    print(f"bootstrap: {arguments.venv} with {', '.join(extras) or 'no extras'}", flush=True)
    started = time.monotonic()
    make_environment(arguments.venv)
    install(arguments.venv, extras)
    print(f"bootstrap: ready after {time.monotonic() - started:.0f} s", flush=True)
    if arguments.stamp:
        arguments.stamp.touch()


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"bootstrap: {' '.join(map(str, error.cmd))} failed (see above)")
    except KeyboardInterrupt:
        sys.exit(130)
    except urllib.error.URLError as error:
        sys.exit(f"bootstrap: cannot fetch pip: {error.reason}")
