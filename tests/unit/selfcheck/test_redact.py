from __future__ import annotations

import pytest

from harness.selfcheck.redact import Redactor, serials_in


def test_serials_are_taken_out_everywhere_the_longer_one_first() -> None:
    redactor = Redactor(["R5CT30", "R5CT30ABCDE", "ab"])
    assert redactor.names("phone R5CT30ABCDE (R5CT30) ab 123456789012345") == (
        "phone <redacted> (<redacted>) ab 123456789012345"
    )
    assert redactor.told() == ["serial numbers: 2"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("imei 490154203237518", "numbers of 14 to 20 digits (IMEI, IMSI, ICCID are such): 1"),
        ("iccid 89490200001234567890 here", "numbers of 14 to 20 digits (IMEI, IMSI, ICCID are such): 1"),
        ("bssid 0a:1B:2c:3d:4e:5f", "hardware addresses: 1"),
        ("account ann.b@mail.example.org", "e-mail addresses: 1"),
        ("[persist.radio.imei]: [490154]", "private properties: 1"),
        ("[ro.boot.wifimacaddr]: [0a1b2c]", "private properties: 1"),
    ],
)
def test_what_is_somebodys_own_is_taken_out_and_counted(text: str, kind: str) -> None:
    redactor = Redactor([])
    assert redactor.everything(text).count("<redacted>") == 1
    assert redactor.told() == [kind]


@pytest.mark.parametrize(
    "text", ["13 digits 1234567890123", "1.23456789012345678", "[ro.product.model]: [F24]", "12:34:56"]
)
def test_what_is_nobodys_stays(text: str) -> None:
    redactor = Redactor([])
    assert redactor.everything(text) == text
    assert redactor.told() == []


def test_a_property_that_holds_a_serial_is_counted_once() -> None:
    properties = {"ro.serialno": "R5CT30ABCDE", "ro.boot.serialno": "R5CT30ABCDE", "ro.product.model": "F24"}
    redactor = Redactor(serials_in(properties, "10.0.0.7:5555"))
    assert redactor.everything("[ro.serialno]: [R5CT30ABCDE]\n") == "[ro.serialno]: [<redacted>]\n"
    assert redactor.told() == ["serial numbers: 1"]
