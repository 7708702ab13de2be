"""A parcel: files that go to strangers in one zip, each bounded, listed in a manifest, and redacted if wanted. Pure.

A crash bundle is one (``crash.json`` is its manifest), and so is what ``mnn-farm selfcheck`` sends.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.core.kept import LEFT_OUT
from harness.triage.readers.crash import Frame

if TYPE_CHECKING:
    from harness.triage.redact import Redactor  # its patterns take time and memory that few who make a parcel need

SCHEMA = 1
MANIFEST = "crash.json"
# A zip has no older times; a fixed one makes the same files the same zip.
_WHEN = (1980, 1, 1, 0, 0, 0)
_LONGEST_NAME = 80
_ODD = re.compile(r"[^A-Za-z0-9._+-]+")


@dataclass(frozen=True)
class Member:
    """One file.

    Attributes:
        name: path in the parcel.
        data: its bytes.
        source: where it comes from, for people.
        cut: what is missing of it, ``""`` for nothing.
        evidence: whether triage reads it: the other files hold the same lines again, or those of other programs.
        ours: whether we wrote it, so that its long numbers are measurements and only known names are masked.
    """

    name: str
    data: bytes
    source: str
    cut: str = ""
    evidence: bool = False
    ours: bool = False

    def told(self) -> dict[str, Any]:
        """Return it as the manifest lists it."""
        return {
            "name": self.name,
            "bytes": len(self.data),
            "sha256": hashlib.sha256(self.data).hexdigest(),
            "source": self.source,
            "cut": self.cut or None,
            "evidence": self.evidence,
        }


@dataclass(frozen=True)
class Missing:
    """What is not in a parcel, and why. That something was not collected says nothing about the phone."""

    what: str
    why: str

    def told(self) -> dict[str, str]:
        """Return it as the manifest lists it."""
        return {"what": self.what, "why": self.why}


def bounded(data: bytes, limit: int) -> tuple[bytes, str]:
    """Return at most ``limit`` bytes of a text and what is missing: a quarter from its begin, the rest from its end.

    What failed to load stands at a log's begin, what it died of at its end.
    """
    if len(data) <= limit:
        return data, ""
    head = max(0, limit // 4 - len(LEFT_OUT))
    tail = max(0, limit - head - len(LEFT_OUT))
    left = len(data) - head - tail
    return (data[:head] + LEFT_OUT + data[len(data) - tail :])[:limit], f"{left} of {len(data)} bytes in its middle"


def within(members: Iterable[Member], limit: int) -> tuple[list[Member], list[Missing]]:
    """Return the members that fit into ``limit`` bytes together, in their order, and what had to stay out."""
    kept: list[Member] = []
    missing: list[Missing] = []
    for member in members:
        if len(member.data) <= limit:
            kept.append(member)
            limit -= len(member.data)
        else:
            missing.append(Missing(member.name, f"its {len(member.data)} bytes did not fit into the bundle any more"))
    return kept, missing


def safe_name(name: str) -> str:
    """Return a file name that came from a phone as one that leads nowhere and that every file system takes."""
    plain = _ODD.sub("_", name.replace("\\", "/").rsplit("/", 1)[-1]).lstrip(".")
    return plain[:_LONGEST_NAME] or "unnamed"


def safe_path(path: str) -> str:
    """Return a relative path of which every part is safe."""
    return "/".join(safe_name(part) for part in path.replace("\\", "/").split("/") if part not in ("", ".", ".."))


def manifest(head: Mapping[str, Any], members: Iterable[Member], missing: Iterable[Missing]) -> bytes:
    """Return a parcel's manifest: what it is about, its files, and what is missing."""
    document = {
        "schema": SCHEMA,
        **head,
        "files": [member.told() for member in members],
        "missing": [one.told() for one in missing],
    }
    return as_json(document)


def as_json(document: Any) -> bytes:
    """Return a JSON document for people; texts that are no Unicode are escaped."""
    return json.dumps(document, indent=1, default=str).encode() + b"\n"


def redact_members(members: Iterable[Member], redactor: Redactor) -> list[Member]:
    """Return members with everything masked that is somebody's, their names too.

    All are read before the first is masked: a serial that one names is masked in all.
    """
    members = list(members)
    for member in members:
        if not member.ours:
            redactor.learn([member.data.decode("utf-8", "surrogateescape")])
    return [_redacted(member, redactor) for member in members]


def _redacted(member: Member, redactor: Redactor) -> Member:
    data = redactor.member(member.name, member.data, ours=member.ours)
    name = redactor.text(member.name).replace("<", "").replace(">", "")  # which Windows takes in no name
    return replace(member, name=safe_path(name), data=data)


def zipped(members: Sequence[Member]) -> bytes:
    """Return the zip of these members; of two with one name the first counts."""
    out = io.BytesIO()
    names: set[str] = set()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            name = safe_path(member.name)
            if name and name not in names:
                names.add(name)
                info = zipfile.ZipInfo(name, _WHEN)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, member.data)
    return out.getvalue()


@dataclass(frozen=True)
class Contents:
    """What a manifest says that triage needs: the files that are evidence, and frames that were named."""

    evidence: tuple[str, ...]
    functions: Mapping[tuple[str, str | None], str]

    def name(self, frame: Frame) -> str | None:
        """Return the function of a frame that was named by the build's unstripped files."""
        return self.functions.get((frame.path, frame.pc))


def contents_of(data: bytes) -> Contents | None:
    """Read a manifest; ``None`` when it is none that this version knows."""
    try:
        document = json.loads(data)
        if document["schema"] != SCHEMA:
            return None
        evidence = tuple(str(one["name"]) for one in document["files"] if one["evidence"])
        functions = {(str(one["path"]), one["pc"]): str(one["function"]) for one in document.get("frames", ())}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return Contents(evidence, functions)
