from __future__ import annotations

import pytest

from harness.phone.getprop import parse_getprop

# The format of Android's getprop, values made up.
TEXT = b"""[ro.product.model]: [Toy 3]
[ro.build.version.sdk]: [35]
[persist.toy.empty]: []
[ro.product.cpu.abilist]: [arm64-v8a,armeabi-v7a]
[persist.toy.list]: [[a] and [b]]
[persist.toy.lines]: [first line
second line]: [
fourth line]
[ro.serialno]: [TOY1]
"""


def test_values_are_read_whole() -> None:
    assert parse_getprop(TEXT) == {
        "ro.product.model": "Toy 3",
        "ro.build.version.sdk": "35",
        "persist.toy.empty": "",
        "ro.product.cpu.abilist": "arm64-v8a,armeabi-v7a",
        "persist.toy.list": "[a] and [b]",
        "persist.toy.lines": "first line\nsecond line]: [\nfourth line",
        "ro.serialno": "TOY1",
    }


def test_line_ends_of_old_adbd_make_no_difference() -> None:
    assert parse_getprop(TEXT.replace(b"\n", b"\r\n")) == parse_getprop(TEXT)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", {}),
        (b"sh: getprop: inaccessible or not found\n", {}),
        (b"[a]: [cut off in the mid", {}),
        (b"[a]: [1]\n[b]: [cut", {"a": "1"}),
        (b"[a]: [1]", {"a": "1"}),
        (b"[]: [x]\n[a]: [1]\n", {"a": "1"}),
        (b"[a]: [\xff\xfe]\n", {"a": "\ufffd\ufffd"}),
        (b"[a]: [1]\n[a]: [2]\n", {"a": "2"}),
    ],
)
def test_odd_output_gives_what_can_be_read(data: bytes, found: dict[str, str]) -> None:
    assert parse_getprop(data) == found
