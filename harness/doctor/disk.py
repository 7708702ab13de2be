"""Room where we write."""

from __future__ import annotations

from harness.core.hostcheck import HostFinding
from harness.doctor.host import Host

_MIB, _GIB = 1024**2, 1024**3
NEEDED_BYTES = 256 * _MIB
"""Below this nothing can be relied on."""
WANTED_BYTES = {"cache": 4 * _GIB, "reports": 1 * _GIB, "temp": 1 * _GIB}
"""The cache holds models; reports hold raw output; temporary files are a model's size when one is converted."""


def check_disk(host: Host) -> list[HostFinding]:
    """There is room for models, reports and temporary files, and they may be written."""
    places = {"cache": host.cache, "reports": host.reports, "temp": host.temp}
    moves = {"cache": "MNN_FARM_CACHE", "reports": "--run-dir", "temp": "TMPDIR"}
    findings = []
    for name, place in places.items():
        fix = f"make room there, or use another disk: {moves[name]}"
        there = next((folder for folder in (place, *place.parents) if folder.exists()), place)
        if not there.is_dir() or not host.may_use(there):
            detail = f"{there} may not be written by {host.user}"
            title = f"the place for {_for(name)} cannot be written"
            findings.append(HostFinding("folder_denied", "error", title, detail, fix))
            continue
        free = host.free(place)
        if free is not None and free < WANTED_BYTES[name]:
            findings.append(
                HostFinding(
                    "disk_low",
                    "error" if free < NEEDED_BYTES else "warning",
                    f"little room for {_for(name)}",
                    f"{_size(free)} free at {place}; {_size(WANTED_BYTES[name])} are wanted",
                    fix,
                )
            )
    return findings


def _for(name: str) -> str:
    return {"cache": "models and programs", "reports": "reports", "temp": "temporary files"}[name]


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count // _MIB} MiB"
