"""Makes `.venv` and installs Weft in it with the named extras.

    python3 scripts/bootstrap.py [--venv .venv] [--stamp FILE] [EXTRA ...]

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
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
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
        if importlib.util.find_spec("ensurepip"):
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    if subprocess.run([python, "-c", "import pip"], capture_output=True).returncode == 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        wheel = fetch_pip(Path(folder))
        # A wheel is a zip file, and pip runs from it.
        pip = [python, f"{wheel}/pip"]
        subprocess.run([*pip, "install", "--quiet", "--no-index", wheel], check=True)


def has_compiler() -> bool:
    if os.environ.get("CC"):
        return True
    return any(shutil.which(name) for name in ("cc", "gcc", "clang"))


def install(venv: Path, extras: list[str]) -> None:
    what = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    quiet = ["--quiet", "--disable-pip-version-check"]
    python = venv / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", *quiet, "--editable", what], check=True)


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
    make_environment(arguments.venv)
    install(arguments.venv, extras)
    if arguments.stamp:
        arguments.stamp.touch()


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"bootstrap: {' '.join(map(str, error.cmd))} failed (see above)")
    except urllib.error.URLError as error:
        sys.exit(f"bootstrap: cannot fetch pip: {error.reason}")
