"""Answers to `host:devices-l`, in adb's forms with values of our own."""

from __future__ import annotations

import pytest

from harness.adb.server import TransportInfo, parse_devices


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "TOY0001                device usb:1-4.2 product:toy model:Toy_3 device:toy transport_id:7",
            TransportInfo("TOY0001", "device", 7, "1-4.2", "Toy_3"),
        ),
        (
            "192.168.7.9:5999       device product:toy model:Toy_3 device:toy transport_id:12",
            TransportInfo("192.168.7.9:5999", "device", 12, None, "Toy_3"),
        ),
        ("TOY0001                offline transport_id:3", TransportInfo("TOY0001", "offline", 3, None, None)),
        (
            "TOY0001                unauthorized usb:2-1 transport_id:4",
            TransportInfo("TOY0001", "unauthorized", 4, "2-1", None),
        ),
        (
            "TOY0001                no permissions (user lab is not in the plugdev group); see "
            "[http://example.org/tools/device.html] usb:1-1 transport_id:5",
            TransportInfo(
                "TOY0001",
                "no permissions (user lab is not in the plugdev group); see [http://example.org/tools/device.html]",
                5,
                "1-1",
                None,
            ),
        ),
        (
            "TOY0001                no permissions (missing udev rules? user is in the plugdev group); see "
            "[http://example.org/tools/device.html]",
            TransportInfo(
                "TOY0001",
                "no permissions (missing udev rules? user is in the plugdev group); see "
                "[http://example.org/tools/device.html]",
                None,
                None,
                None,
            ),
        ),
        ("a-serial-longer-than-usual device", TransportInfo("a-serial-longer-than-usual", "device", None, None, None)),
        ("TOY0001\tdevice", TransportInfo("TOY0001", "device", None, None, None)),
        ("TOY0001 device transport_id:x", TransportInfo("TOY0001", "device", None, None, None)),
    ],
)  # fmt: skip
def test_a_line_is_read(line: str, expected: TransportInfo) -> None:
    assert parse_devices(line + "\n") == [expected]


def test_every_line_is_a_transport_and_blank_ones_are_none() -> None:
    text = "A device transport_id:1\n\nB offline transport_id:2\r\n   \nA device transport_id:3\n"
    assert [(t.serial, t.state, t.transport_id) for t in parse_devices(text)] == [
        ("A", "device", 1),
        ("B", "offline", 2),
        ("A", "device", 3),
    ]
    assert parse_devices("") == []


@pytest.mark.parametrize("text", ["garbage", "\ufffd\ufffd\x00", ":::", " lonely"])
def test_what_is_no_line_of_adb_is_passed_over(text: str) -> None:
    assert parse_devices(text) == []
