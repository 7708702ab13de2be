"""Serials that a text names as such: adb's lists and messages, options, properties, the kernel's words of USB. Pure."""

from __future__ import annotations

import re

_SHORTEST_SERIAL, _SHORTEST_OF_DIGITS = 6, 8

#: In small letters; without one of them a line names none.
WORDS = (
    "serial", "adb-", "emulator-", "device '", "opened device", "--device", "\tdevice", "  device", "device usb:",
    "device product:", "transport '", "transport.cpp", "phone=", "-s ", "offline", "unauthorized", "rescue",
    "authorizing", "recovery", "no permissions", "sideload", "bootloader", "fastboot", "\thost", "  host", "connecting",
    "is busy", "not found", "connected", " lost", "by-id/",
)  # fmt: skip
# Serials that say so themselves: of a phone found in the network, of an emulator.
_SELF_TOLD = re.compile(
    r"\badb-(?P<hardware>[A-Za-z0-9]{4,32})-[A-Za-z0-9]{4,8}(?: \(\d{1,3}\))?(?:\._adb-tls-\w{4,12}\._tcp\.?)?(?![\w-])"
    r"|\bemulator-\d{4,5}\b"
)
_ONE = r"(?P<serial>[A-Za-z0-9][A-Za-z0-9._:-]{3,63})"
# Words behind which a serial stands.
_NAMED = re.compile(
    r"(?:(?i:serial(?:[ _]?n(?:o|um|umber))?(?![a-z])[\"'\]]{0,2}\s{0,20}[:=]\s{0,4}[\"'\[]{0,2}|"
    r"iserial\s{1,30}\d{1,3} )"
    r"|\bdevice '|\b(?:--)?serial |\b(?:adb|fastboot)(?:\.exe)?(?: -[A-Za-z] \S{1,80}){0,4} -s |^-s |\bSERIAL=[\"']?|"
    r"\bopened device |transport '|phone=|with serial |/by-id/usb-\S{1,80}_(?=\w{6,32}-(?:if|port|0)))" + _ONE
)
# Before what adb and its server say of a phone.
_SAID_OF = re.compile(
    r"(?:\bdevice |transport\.cpp:\d{1,6}\] )" + _ONE + r"(?:(?<!:) (?:is |was )?(?:offline|unauthorized|busy|lost|"
    r"not found|disconnected|reconnected)\b|: (?:connection|already|offline|read|write|remote|destroy|kick))"
)
_OF_OPTION = re.compile(r"--devices?[ =](?P<serials>[A-Za-z0-9._:,-]{6,2000})")
_LISTED = re.compile(
    r"^(?P<serial>[A-Za-z0-9._:-]{4,64})(?<!:)\s{1,20}(?:device|offline|unauthorized|authorizing|recovery|rescue|"
    r"fastboot|no permissions|sideload|bootloader|host|connecting)"
    r"(?=\s{0,4}$|\s{1,4}(?:usb|product|model|device|transport_id):|;| \()"
)
_PHONE_WORDS = ("usb:", "virtual:", "model:", "tier:", "lab:", "soc:")


def serials_in(line: str) -> list[str]:
    """Return the serials that a line names as such."""
    found = [match["serial"] for match in (_LISTED.match(line), *_NAMED.finditer(line)) if match is not None]
    found += [match["serial"] for match in _SAID_OF.finditer(line)]
    for match in _OF_OPTION.finditer(line):
        found += [word for word in match["serials"].split(",") if not word.startswith(_PHONE_WORDS)]
    for match in _SELF_TOLD.finditer(line):
        found += [match[0], *([match["hardware"]] if match["hardware"] else [])]
    return [one for one in (word.rstrip(".:") for word in found) if _is_like_a_serial(one)]


def _is_like_a_serial(word: str) -> bool:
    """Words of prose, addresses and small numbers are none, e.g. ``serial=12``: those would be masked everywhere."""
    if len(word) < (_SHORTEST_OF_DIGITS if word.isdigit() else _SHORTEST_SERIAL) or word.startswith("0x"):
        return False
    # `0000000000000000` is what phones without one say, and what registers hold.
    return len(set(word)) > 1 and any(char.isdigit() for char in word)
