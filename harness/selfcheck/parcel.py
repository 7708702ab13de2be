"""The zip that is sent to us: results, facts, and everything raw, without what is somebody's own."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.core.errors import HostError, PhoneError
from harness.core.ids import utc_now
from harness.phone.getprop import parse_getprop
from harness.selfcheck.redact import Redactor, serials_in
from harness.selfcheck.subject import Subject

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
    redactor = Redactor(serials_in(properties, subject.serial))
    files = {f"raw/{name}": _apply(redactor.names, content) for name, content in subject.raw.items()}
    for name, content in collected.items():
        files[name] = _apply(redactor.names if name in _PLAIN else redactor.everything, content)
    files["facts.json"] = redactor.names(json.dumps(facts, indent=1)).encode()
    files["results.json"] = redactor.names(json.dumps(document, indent=1)).encode()
    files["redacted.txt"] = "".join(f"{line}\n" for line in redactor.told()).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(files.items()):
                archive.writestr(name, content)
    except OSError as error:
        raise HostError(f"{path} cannot be written ({error})", remedy="choose another place with --out") from error
    return redactor.told()


def _apply(redact: Callable[[str], str], content: bytes) -> bytes:
    text = redact(content.decode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape")
