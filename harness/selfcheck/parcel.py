"""The zip that is sent to us: results, facts, and everything raw, without what is somebody's own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.core.errors import HostError, PhoneError
from harness.core.ids import utc_now
from harness.phone.getprop import parse_getprop
from harness.selfcheck.subject import Subject
from harness.triage.parcel import Member, redact_members, zipped
from harness.triage.redact import Redactor, serials_of

# In these stands nothing of anybody's, and their long numbers are masks and counts.
_PLAIN = {
    "meminfo.txt": ("cat", "/proc/meminfo"),
    "cpuinfo.txt": ("cat", "/proc/cpuinfo"),
    "mounts.txt": ("cat", "/proc/mounts"),
    "status.txt": ("cat", "/proc/self/status"),
}
_PRIVATE = {
    "getprop.txt": ("getprop",),
    "dumpsys-battery.txt": ("dumpsys", "battery"),
    "dumpsys-power.txt": ("dumpsys", "power"),
    "dumpsys-thermalservice.txt": ("dumpsys", "thermalservice"),
    "logcat.txt": ("logcat", "-d", "-t", "3000"),
}


def collect(subject: Subject) -> dict[str, bytes]:
    """Ask the phone for what helps to understand it; what it does not answer is a file that says why."""
    found: dict[str, bytes] = {}
    for name, argv in {**_PLAIN, **_PRIVATE}.items():
        try:
            result = subject.shell(*argv)
        except PhoneError as error:
            found[name] = f"not there: {error}\n".encode()
            continue
        found[name] = result.stdout + (b"\n" + result.stderr if result.stderr else b"")
    return found


def model_of(collected: Mapping[str, bytes]) -> str:
    """Return the phone's name for people, by its properties."""
    return parse_getprop(collected.get("getprop.txt", b"")).get("ro.product.model", "").strip() or "unknown phone"


def parcel_path(out: Path | None, model: str) -> Path:
    """Return where the zip goes: ``out`` itself if it is called so, else a fresh name in that folder."""
    if out is not None and out.suffix == ".zip":
        return out
    slug = re.sub(r"[^A-Za-z0-9]+", "-", model).strip("-") or "phone"
    return (out or Path()) / f"selfcheck-{slug}-{utc_now():%Y%m%d-%H%M%S}.zip"


def write_parcel(
    path: Path, subject: Subject, document: Mapping[str, Any], facts: Mapping[str, Any], collected: Mapping[str, bytes]
) -> list[str]:
    """Write the zip and return what was taken out of it, by kind.

    Raises:
        HostError: it cannot be written here.
    """
    properties = parse_getprop(collected.get("getprop.txt", b""))
    redactor = Redactor(serials_of(properties, subject.serial))
    members = [Member(f"raw/{name}", content, "a run's events", ours=True) for name, content in subject.raw.items()]
    for name, content in collected.items():
        members.append(Member(name, content, "the phone", ours=name in _PLAIN))
    members.append(Member("facts.json", json.dumps(facts, indent=1).encode(), "the phone's facts", ours=True))
    members.append(Member("results.json", json.dumps(document, indent=1).encode(), "what was found", ours=True))
    members = redact_members(members, redactor)
    told = redactor.told()
    members.append(Member("redacted.txt", "".join(f"{line}\n" for line in told).encode(), "what was masked", ours=True))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zipped(sorted(members, key=lambda member: member.name)))
    except OSError as error:
        raise HostError(f"{path} cannot be written ({error})", remedy="choose another place with --out") from error
    return told
