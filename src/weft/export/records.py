"""What a toolkit is made of, for people who check it: a manifest with hashes, and an SBOM."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from weft.records import dataclass

MANIFEST, SBOM = "manifest.json", "sbom.spdx.json"
_NOTHING_SAID = "NOASSERTION"


@dataclass(frozen=True)
class Provenance:
    """Where a network comes from.

    Attributes:
        weft: version of Weft.
        graph: a hash of the network that was compiled, weights included.
        source: SHA-256 of the model's file; empty where there is none.
        history: what was done to the model, and with which rules.
    """

    weft: str = ""
    graph: str = ""
    source: str = ""
    history: tuple[tuple[str, str], ...] = ()


NO_ORIGIN = Provenance()


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of a toolkit.

    Attributes:
        path: from the toolkit's folder.
        size: in bytes.
        sha1: of its content; sha256: likewise.
    """

    path: str
    size: int
    sha1: str
    sha256: str


def file_record(folder: Path, path: str) -> FileRecord:
    """The record of a file that was written."""
    content = (folder / path).read_bytes()
    sha1 = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return FileRecord(path, len(content), sha1, hashlib.sha256(content).hexdigest())


def manifest(
    name: str, model: str, target: str, origin: Provenance, files: Sequence[FileRecord]
) -> str:
    """Every file with its SHA-256, as JSON.

    Args:
        name: of the network.
        model: what was compiled.
        target: the machine.
        origin: of the network.
        files: all but the manifest.
    """
    record = {
        "format": 1,
        "name": name,
        "model": {"name": model, "sha256": origin.source or None, "graph": origin.graph},
        "target": target,
        "weft": origin.weft,
        "files": [{"path": each.path, "bytes": each.size, "sha256": each.sha256} for each in files],
    }
    return json.dumps(record, indent=2) + "\n"


def sbom(
    name: str, model: str, licence: str, origin: Provenance, files: Sequence[FileRecord]
) -> str:
    """A software bill of materials in SPDX 2.3, as JSON.

    The specification asks for a date: that of ``SOURCE_DATE_EPOCH``, or the first second of
    1970, so that equal toolkits have equal bytes.

    Args:
        name: of the network.
        model: what was compiled.
        licence: what is known of the licence.
        origin: of the network.
        files: all but the SBOM and the manifest.
    """
    code = hashlib.sha1(
        "".join(sorted(each.sha1 for each in files)).encode(), usedforsecurity=False
    ).hexdigest()
    unique = uuid.uuid5(uuid.NAMESPACE_URL, f"weft/{name}/{code}")
    listed = [_file(number, each) for number, each in enumerate(files, 1)]
    toolkit, network, weft = "SPDXRef-Toolkit", "SPDXRef-Model", "SPDXRef-Weft"
    record = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name} software toolkit",
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{unique}",
        "creationInfo": {"created": _date(), "creators": [f"Tool: weft-{origin.weft}"]},
        "packages": [
            _package(
                toolkit,
                name,
                filesAnalyzed=True,
                packageVerificationCode={"packageVerificationCodeValue": code},
                licenseComments=licence,
                hasFiles=[each["SPDXID"] for each in listed],
                primaryPackagePurpose="SOURCE",
            ),
            _package(network, model, filesAnalyzed=False, **_checksum(origin)),
            _package(
                weft,
                "weft",
                filesAnalyzed=False,
                versionInfo=origin.weft,
                licenseDeclared="Apache-2.0",
            ),
        ],
        "files": listed,
        "relationships": [
            _related("SPDXRef-DOCUMENT", "DESCRIBES", toolkit),
            _related(toolkit, "GENERATED_FROM", network),
            _related(weft, "BUILD_TOOL_OF", toolkit),
        ],
    }
    return json.dumps(record, indent=2) + "\n"


def _date() -> str:
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(seconds) if seconds.isdecimal() else 0, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _checksum(origin: Provenance) -> Mapping[str, Any]:
    if not origin.source:
        return {"comment": f"Weft's hash of the graph: {origin.graph}"}
    return {"checksums": [{"algorithm": "SHA256", "checksumValue": origin.source}]}


def _package(identity: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "SPDXID": identity,
        "name": name,
        "downloadLocation": _NOTHING_SAID,
        "licenseConcluded": _NOTHING_SAID,
        "licenseDeclared": _NOTHING_SAID,
        "copyrightText": _NOTHING_SAID,
        **more,
    }


def _file(number: int, each: FileRecord) -> dict[str, Any]:
    return {
        "SPDXID": f"SPDXRef-File-{number}",
        "fileName": f"./{each.path}",
        "checksums": [
            {"algorithm": "SHA1", "checksumValue": each.sha1},
            {"algorithm": "SHA256", "checksumValue": each.sha256},
        ],
        "licenseConcluded": _NOTHING_SAID,
        "licenseInfoInFiles": [_NOTHING_SAID],
        "copyrightText": _NOTHING_SAID,
    }


def _related(one: str, how: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other}
