"""USB as sysfs shows it, with devices and rules of our own."""

from __future__ import annotations

import pytest

from harness.doctor.host import Host
from harness.doctor.usb import UsbPhone, check_usb, usb_phones

from .conftest import MakeHost, plug_in


def rule(host: Host, vendor: str = "1234") -> None:
    host.rules[0].mkdir()
    (host.rules[0] / "51-android.rules").write_text(f'ATTR{{idVendor}}=="{vendor}", MODE="0660"\n')


def denied(make_host: MakeHost, **changes: object) -> Host:
    return make_host(may_use=lambda path: path.name != "017", **changes)


def test_a_device_with_an_adb_interface_is_a_phone(make_host: MakeHost) -> None:
    host = make_host()
    node = plug_in(host)
    assert list(usb_phones(host)) == [UsbPhone("1-4.2", node, "1234", "Toy 3")]
    assert check_usb(host) == []


@pytest.mark.parametrize("interface", [("08", "06", "50"), ("ff", "42", "03"), ("03", "42", "01")])
def test_other_devices_are_none_fastboot_too(make_host: MakeHost, interface: tuple[str, str, str]) -> None:
    host = denied(make_host)
    plug_in(host, interface=interface)
    assert check_usb(host) == []


def test_a_computer_without_usb_has_no_phones(make_host: MakeHost) -> None:
    assert check_usb(make_host()) == []


def test_without_a_rule_the_fix_is_the_rule_and_the_group(make_host: MakeHost) -> None:
    host = denied(make_host)
    plug_in(host)
    [finding] = check_usb(host)
    assert (finding.code, finding.severity) == ("usb_denied", "error")
    assert "Toy 3 at USB port 1-4.2 (vendor 1234)" in finding.detail
    assert "no udev rule is for vendor 1234" in finding.detail
    assert 'ATTR{idVendor}=="1234"' in finding.fix
    assert "sudo usermod -aG plugdev ada" in finding.fix


def test_with_a_rule_for_others_too(make_host: MakeHost) -> None:
    host = denied(make_host, groups=frozenset({"plugdev"}))
    plug_in(host)
    rule(host, "4321")
    [finding] = check_usb(host)
    assert 'ATTR{idVendor}=="1234"' in finding.fix
    assert "usermod" not in finding.fix


def test_with_a_rule_the_fix_is_the_group(make_host: MakeHost) -> None:
    host = denied(make_host)
    plug_in(host)
    rule(host)
    [finding] = check_usb(host)
    assert "ada is not in the group plugdev" in finding.detail
    assert finding.fix.startswith("sudo usermod -aG plugdev ada")


def test_with_rule_and_group_the_fix_is_to_apply_them(make_host: MakeHost) -> None:
    host = denied(make_host, groups=frozenset({"plugdev"}))
    plug_in(host)
    rule(host)
    [finding] = check_usb(host)
    assert finding.fix.startswith("sudo udevadm control --reload; sudo udevadm trigger")


def test_in_a_container_without_the_nodes_the_fix_is_to_give_them(make_host: MakeHost) -> None:
    host = make_host()
    plug_in(host).unlink()
    [finding] = check_usb(host)
    assert (finding.code, finding.severity) == ("usb_node_missing", "error")
    assert "--device /dev/bus/usb" in finding.fix
