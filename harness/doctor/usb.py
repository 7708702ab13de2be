"""Phones on USB that this user may not open: udev's rules and groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.hostcheck import HostFinding
from harness.doctor.host import Host

# The interface by which adb knows a phone: class, subclass, protocol (adb's client/usb_linux.cpp, is_adb_interface).
_ADB_INTERFACE = ("ff", "42", "01")
_GROUP = "plugdev"
RULES_FILE = "/etc/udev/rules.d/51-android.rules"


@dataclass(frozen=True)
class UsbPhone:
    """A device on USB that offers adb: its port, its node and its vendor."""

    port: str
    node: Path
    vendor: str
    title: str


def usb_phones(host: Host) -> Iterator[UsbPhone]:
    """Yield every device that has an adb interface; one that goes away meanwhile is passed over."""
    devices = host.sys_root / "bus" / "usb" / "devices"
    for port in sorted({path.name.partition(":")[0] for path in devices.glob("*:*") if _is_adb(path)}):
        device = devices / port
        bus, number = _read(device / "busnum"), _read(device / "devnum")
        if bus.isdigit() and number.isdigit():
            node = host.dev_root / "bus" / "usb" / f"{int(bus):03d}" / f"{int(number):03d}"
            title = " ".join(filter(None, (_read(device / "manufacturer"), _read(device / "product")))) or "a phone"
            yield UsbPhone(port, node, _read(device / "idVendor"), title)


def _is_adb(interface: Path) -> bool:
    names = ("bInterfaceClass", "bInterfaceSubClass", "bInterfaceProtocol")
    return tuple(_read(interface / name) for name in names) == _ADB_INTERFACE


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def check_usb(host: Host) -> list[HostFinding]:
    """Every phone on USB may be opened by this user."""
    return [_denied(host, phone) for phone in usb_phones(host) if not host.may_use(phone.node)]


def _denied(host: Host, phone: UsbPhone) -> HostFinding:
    what = f"{phone.title} at USB port {phone.port} (vendor {phone.vendor})"
    if not phone.node.exists():
        return HostFinding(
            "usb_node_missing",
            "error",
            "a phone on USB is not in /dev",
            f"{what} has no {phone.node}: this is probably a container without it",
            "give the container the devices, e.g. docker run --device /dev/bus/usb, or use the host's server: --adb",
        )
    rules = [path for path in _rule_files(host) if f'"{phone.vendor}"' in _read(path)]
    if not rules:
        detail = f"{phone.node} may not be written by {host.user}, and no udev rule is for vendor {phone.vendor}"
        rule = f'SUBSYSTEM=="usb", ATTR{{idVendor}}=="{phone.vendor}", MODE="0660", GROUP="{_GROUP}", TAG+="uaccess"'
        fix = f"echo '{rule}' | sudo tee -a {RULES_FILE}; sudo udevadm control --reload"
        fix += "" if _GROUP in host.groups else f"; sudo usermod -aG {_GROUP} {host.user}, log in again"
        fix += "; replug the phone"
    elif _GROUP not in host.groups:
        detail = f"{phone.node} may not be written: {rules[0]} has a rule, but {host.user} is not in the group {_GROUP}"
        fix = f"sudo usermod -aG {_GROUP} {host.user}, then log in again and restart the adb server"
    else:
        detail = f"{phone.node} may not be written although {rules[0]} has a rule and {host.user} is in {_GROUP}"
        fix = "sudo udevadm control --reload; sudo udevadm trigger; replug the phone and restart the adb server"
    return HostFinding("usb_denied", "error", "a phone on USB may not be used by this user", f"{what}: {detail}", fix)


def _rule_files(host: Host) -> Iterator[Path]:
    for folder in host.rules:
        yield from sorted(folder.glob("*.rules"))
