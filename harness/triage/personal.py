"""What looks like somebody's own in a log: addresses, accounts, numbers of phones and SIMs, names, places. Pure.

Each kind is a pattern and, where a pattern is not enough, a check of what it found. The group ``secret`` is what is
masked; without one it is the whole match. Patterns look at one line at a time and none can backtrack far.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

Check = Callable[[re.Match[str]], bool]


@dataclass(frozen=True)
class Kind:
    """One kind of secret: its name in placeholders, what it looks like, a letter sequence without which it is not."""

    name: str
    pattern: re.Pattern[str]
    needle: str = ""
    check: Check = lambda _: True


# Keys of properties and of JSON whose values are somebody's.
_PRIVATE_KEY = re.compile(
    r"serial(?!i[sz])|imei|meid|imsi|iccid|msisdn|line1|esn$|mac_?(?:addr|$)|bdaddr|btmac|wifimac|hostname|\bssid|"
    r"android_?id$|device_name|bluetooth_name",
    re.IGNORECASE,
)
_KEY_KINDS = {
    "serial": "serial", "ssid": "ssid", "mac": "mac", "bdaddr": "mac", "android": "android-id", "name": "name",
}  # fmt: skip
#: Keys whose values are versions and hashes: four numbers there are no address.
VERSION_KEY = re.compile(r"version|fingerprint|hash|sha256|build|driver|release", re.IGNORECASE)
PROPERTY = re.compile(r"^\[(?P<key>[^\]\n]{1,120})\]: \[(?P<secret>[^\n]*)\]\r?$")

_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_VERSION_BEFORE = re.compile(
    r"(?:version|ver|rel|release|mnn|driver|engine|api|sdk|firmware|opencl|vulkan|build)[\s\"':=_v-]{0,4}$",
    re.IGNORECASE,
)
_ADDRESS_BEFORE = re.compile(
    r"(?:\b(?:inet|ip|addr(?:ess)?|host|connect(?:ed)? to|from|via|dst|src|dns|gateway|gw|server|peer)[\s\"':=/]{0,3}|"
    r"//|@)$",
    re.IGNORECASE,
)
_MEASURED_BEFORE = re.compile(r"_(?:ns|us|ms|bytes|khz)\W{1,5}$")
# Above it a number of four is hardly a part of a version.
_LARGEST_OF_VERSION = 31
# How an address of IPv6 that is shortened by `::` begins: global, local to a site or a link, many, translated.
_FIRST_GROUP = re.compile(r"(?:[23][0-9a-f]{3}|f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]|ff0[0-9a-f]|64):", re.IGNORECASE)
_GROUPS = 8
_FEWEST_OF_TELEPHONE = 9
_SHORTEST_SERIAL, _SHORTEST_OF_DIGITS = 6, 8


def is_ipv4(match: re.Match[str]) -> bool:
    """Return whether four numbers are an address and no version, by what stands beside them and how large they are."""
    before, after = (
        match.string[max(0, match.start() - 24) : match.start()],
        match.string[match.end() : match.end() + 6],
    )
    if _VERSION_BEFORE.search(before):
        return False
    if _ADDRESS_BEFORE.search(before) or re.match(r":\d{2,5}\b|/\d{1,2}\b", after):
        return True
    numbers = [int(number) for number in match[0].split(".")]
    return numbers[0] == 10 or max(numbers) > _LARGEST_OF_VERSION


def is_ipv6(match: re.Match[str]) -> bool:
    """Return whether hex groups are an address: no time, no name of C++, no list of bytes."""
    text = match[0]
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return text.count(":") == _GROUPS - 1 or _FIRST_GROUP.match(text) is not None


def _is_number_of_a_person(match: re.Match[str]) -> bool:
    """Return whether digits may be an IMEI, an IMSI, an IMEISV or an ICCID; registers and nanoseconds are none."""
    digits = match[0]
    if digits.startswith("00") or _MEASURED_BEFORE.search(match.string, max(0, match.start() - 12), match.start()):
        return False
    return len(digits) in (14, 15, 16) or digits.startswith("89")


_AT = r"(?:/storage/(?:emulated/\d{1,3}|[0-9A-F]{4}-[0-9A-F]{4})|/sdcard|/mnt/sdcard|/data/media/\d{1,3})/"
_DEGREES = r"-?\d{1,3}\.\d{1,15}"


def _kind(name: str, pattern: str, needle: str = "", check: Check = lambda _: True) -> Kind:
    return Kind(name, re.compile(pattern, re.IGNORECASE), needle, check)


#: In the order in which they are looked for: what a mail address holds is no address of a network.
KINDS = (
    _kind("account", r"(?<![\w.+-])[\w.+-]{1,64}@(?!\d+\.\d)[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}", "@"),
    _kind("account", r"\bAccount ?\{name=(?P<secret>[^,}\n<]{1,80})", "{name="),
    _kind(
        "mac",
        r"(?<![0-9a-f:-])[0-9a-f]{2}(?P<by>[:-])(?:[0-9a-f]{2}(?P=by)){4}[0-9a-f]{2}(?:(?P=by)[0-9a-f]{2}){0,2}"
        r"(?![0-9a-f]|[:-][0-9a-f]{2})",
    ),
    _kind("ip", r"(?<![\w.:-])[0-9a-f:]{3,39}(?![\w:])", "::", is_ipv6),
    _kind("ip", r"(?<![\w.:-])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\w:])", ":", is_ipv6),
    _kind("ip", rf"(?<![\w.-])(?:{_OCTET}\.){{3}}{_OCTET}(?!\w|\.\d)", ".", is_ipv4),
    _kind("android-id", r"android_?id[\"'\]: =\[]{1,6}(?P<secret>[0-9a-f]{16})\b"),
    _kind("number", r"(?:imei|meid|imsi|iccid|msisdn|esn)\w{0,4}[\"'\]: =\[#]{0,8}(?P<secret>[0-9a-f]{6,22})\b"),
    _kind("number", r"(?<![\w.-])\d{14,20}(?!\w|\.\d)", "", _is_number_of_a_person),
    _kind(
        "telephone",
        r"(?<![\w)\]>+.])\+[1-9]\d{0,2}[ -]?(?:\(?\d{2,11}\)?[ -]?){1,5}(?<=\d)(?!\w)",
        "+",
        lambda match: sum(char.isdigit() for char in match[0]) >= _FEWEST_OF_TELEPHONE,
    ),
    _kind("telephone", r"\btel:(?P<secret>[\d ()/-]{5,20}\d)", "tel:"),
    _kind("ssid", r"\b(?:e?ssid|network ?name)\b[\"']?\s?[:=]\s?\"(?P<secret>[^\"\n]{1,64})\""),
    _kind("ssid", r"\b(?:e?ssid)\b[\"']?\s?[:=]\s?'(?P<secret>[^'\n]{1,64})'"),
    _kind(
        "ssid",
        r"\be?ssid\s?[:=]\s?(?P<secret>(?![<\"'])"
        r"(?:[^,;=:\n\"'{}\[\]()<]{1,32}(?=[,;])|[^\s,;<\"']{1,32}))",
    ),
    _kind("name", r"bluetooth.{0,60}?\bname(?: is)?\s?[:=]\s?\"?(?P<secret>[^,\"\n<]{1,64})"),
    _kind(
        "name", r"(?<![\w/])(?:device_name|bluetooth_name|friendly ?name)\"?\s?[:=]\s?\"?(?P<secret>[^,\"\n<]{1,64})"
    ),
    _kind("user", r"(?:(?<![\w.-])/home/|/Users/|[A-Z]:\\+Users\\+)(?P<secret>[^/\\\s:\"'<>]{1,64})"),
    # Apps' own folders, which Android names; everything else there may be called as its owner likes.
    _kind("file", _AT + r"(?P<secret>(?!Android/)[^\s\"',;:)<>]{1,255})"),
    _kind("place", r"\bLocation\[\w{1,20} (?P<secret>-?\d{1,3}[.,]\d{1,12},-?\d{1,3}[.,]\d{1,12})", "["),
    _kind("place", rf"\b(?:latitude|longitude)\W{{1,5}}?(?P<secret>{_DEGREES})"),
    _kind("place", rf"\blat\W{{1,3}}?(?P<secret>{_DEGREES}.{{1,12}}?\bl(?:on|ng)\W{{1,3}}?{_DEGREES})"),
)

# Serials that say so themselves: of a phone found in the network, of an emulator.
_SELF_TOLD = re.compile(
    r"\badb-(?P<hardware>[A-Za-z0-9]{4,32})-[A-Za-z0-9]{4,8}(?: \(\d{1,3}\))?(?:\._adb-tls-\w{4,12}\._tcp\.?)?(?![\w-])"
    r"|\bemulator-\d{4,5}\b"
)
# Words behind which a serial stands: adb's messages and options, properties, `adb devices`.
_NAMED = re.compile(
    r"(?:\bserial(?:no)?\b[\"'\]]{0,2}\s{0,2}[:=]\s{0,2}[\"'\[]{0,2}|\bdevice '|\bserial |\badb(?: -\w \S{1,80})? -s |"
    r"^-s |\bSERIAL=|transport '|phone=|with serial )(?P<serial>[A-Za-z0-9._:-]{4,64})"
)
_LISTED = re.compile(
    r"^(?P<serial>[A-Za-z0-9._:-]{4,64})(?<!:)\s{1,20}(?:device|offline|unauthorized|authorizing|recovery|"
    r"no permissions|sideload|bootloader|host|connecting)"
    r"(?=\s{0,4}$|\s{1,4}(?:usb|product|model|device|transport_id):|;| \()"
)


def kind_of_key(key: str) -> str | None:
    """Return what kind of secret stands under a key of properties or of JSON, ``None`` where it is none."""
    found = _PRIVATE_KEY.search(key)
    if found is None:
        return None
    word = found[0].lower()
    return next((kind for part, kind in _KEY_KINDS.items() if part in word), "number")


def serials_in(line: str) -> list[str]:
    """Return the serials that a line names as such."""
    found = [match["serial"] for match in (_LISTED.match(line), *_NAMED.finditer(line)) if match is not None]
    for match in _SELF_TOLD.finditer(line):
        found += [match[0], *([match["hardware"]] if match["hardware"] else [])]
    return [one for one in (word.rstrip(".:") for word in found) if _is_like_a_serial(one)]


def _is_like_a_serial(word: str) -> bool:
    """Words of prose, addresses and small numbers are none, e.g. ``serial=12``: those would be masked everywhere."""
    if len(word) < (_SHORTEST_OF_DIGITS if word.isdigit() else _SHORTEST_SERIAL) or word.startswith("0x"):
        return False
    return any(char.isdigit() for char in word)
