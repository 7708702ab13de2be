"""The keys by which phones know this computer. adb looks in ``$HOME/.android`` and where ``ADB_VENDOR_KEYS`` says."""

from __future__ import annotations

import os
from pathlib import Path

from harness.core.hostcheck import HostFinding
from harness.doctor.host import Host

_OTHER_HOMES = ("ANDROID_USER_HOME", "ANDROID_SDK_HOME")


def check_keys(host: Host) -> list[HostFinding]:
    """There is a key and it can be read, or one can be made."""
    findings = _vendor_keys(host)
    key = host.home / ".android" / "adbkey"
    if key.is_file():
        if not host.may_use(key):
            findings.append(
                HostFinding(
                    "adb_key_denied",
                    "error",
                    "adb cannot read this computer's key, so every phone is unauthorized",
                    f"{key} may not be read by {host.user}; a server that root started makes it so",
                    f"sudo chown {host.user}: {key} {key}.pub; adb kill-server; adb start-server",
                )
            )
        return findings
    folder = next(place for place in (key.parent, host.home, *host.home.parents) if place.is_dir())
    if not host.may_use(folder):
        findings.append(
            HostFinding(
                "adb_key_impossible",
                "error",
                "adb has no key and cannot make one",
                f"there is no {key}, and {folder} may not be written by {host.user}",
                f"make {key.parent} writable, or set HOME to a folder that is",
            )
        )
        return findings
    elsewhere = [place for place in _elsewhere(host) if place.is_file()]
    if elsewhere:
        findings.append(
            HostFinding(
                "adb_key_elsewhere",
                "warning",
                "the key lies where adb does not look",
                f"{elsewhere[0]} is there, {key} is not: the server will make a new one that no phone knows",
                f"export ADB_VENDOR_KEYS={elsewhere[0]} before the server starts, or copy it to {key}",
            )
        )
    else:
        findings.append(
            HostFinding(
                "adb_key_new",
                "info",
                "this computer has no adb key yet",
                f"there is no {key}; the first adb server makes it",
                "plug a phone in and accept the key on its screen (tick always allow)",
            )
        )
    return findings


def _elsewhere(host: Host) -> list[Path]:
    homes = [Path(host.environ[name]) for name in _OTHER_HOMES if host.environ.get(name)]
    return [place for home in homes for place in (home / "adbkey", home / ".android" / "adbkey")]


def _vendor_keys(host: Host) -> list[HostFinding]:
    findings = []
    for word in filter(None, host.environ.get("ADB_VENDOR_KEYS", "").split(os.pathsep)):
        place = Path(word)
        keys = sorted(place.glob("*.adb_key")) if place.is_dir() else [place]
        problem = (
            "it does not exist"
            if not place.exists()
            else "it holds no *.adb_key"
            if not keys
            else f"{host.user} may not read it"
            if not all(map(host.may_use, keys))
            else ""
        )
        if problem:
            findings.append(
                HostFinding(
                    "adb_vendor_key",
                    "warning",
                    "ADB_VENDOR_KEYS names a key that adb cannot use",
                    f"{word}: {problem}",
                    "name a key file or a folder of *.adb_key files that can be read, and restart the adb server",
                )
            )
    return findings
