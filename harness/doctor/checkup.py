"""All checks of this computer, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.core.hostcheck import HostFinding, provided_checks
from harness.doctor.adb_keys import check_keys
from harness.doctor.adb_programs import check_killers, check_programs
from harness.doctor.adb_server import check_emulator_ports, check_server, check_settings
from harness.doctor.disk import check_disk
from harness.doctor.host import Host
from harness.doctor.software import check_mnn, check_packages, check_python, check_zig
from harness.doctor.usb import check_usb

CHECKS: dict[str, Callable[[Host], list[HostFinding]]] = {
    "adb settings": check_settings,
    "adb programs": check_programs,
    "adb server": check_server,
    "adb programs against the server": check_killers,
    "adb keys": check_keys,
    "phones on USB": check_usb,
    "ports of emulators": check_emulator_ports,
    "disk": check_disk,
    "Python": check_python,
    "packages": check_packages,
    "MNN": check_mnn,
    "compiler": check_zig,
}


@dataclass(frozen=True)
class Checked:
    """One check and what it found."""

    name: str
    findings: tuple[HostFinding, ...]


def check_up(host: Host) -> Iterator[Checked]:
    """Yield each check as it is done, ours first, then those that providers of phones bring."""
    for name, check in CHECKS.items():
        yield Checked(name, tuple(check(host)))
    for name, provided in provided_checks():
        yield Checked(f"{name} phones", tuple(provided()))
