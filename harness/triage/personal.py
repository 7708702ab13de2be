"""What looks like somebody's own in a log: addresses, accounts, numbers of phones and SIMs, names, places. Pure.

Each kind is a pattern and, where a pattern is not enough, a check of what it found. The group ``secret`` is what is
masked; without one it is the whole match. Patterns look at one line at a time and none can backtrack far.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.triage.keys import is_processor

Check = Callable[[re.Match[str]], bool]


@dataclass(frozen=True)
class Kind:
    """One kind of secret.

    Attributes:
        name: in placeholders.
        pattern: what it looks like.
        words: in small letters; without one of them in its line it is none. Empty: it is known by its shape
            (:mod:`harness.triage.suspects`).
        marks: of what has a shape: without so many of one of these characters it is none.
        check: a further look at what was found.
    """

    name: str
    pattern: re.Pattern[str]
    words: tuple[str, ...] = ()
    marks: tuple[tuple[str, int], ...] = ()
    check: Check = lambda _: True

    def may_be_in(self, line: str) -> bool:
        """Return whether a line has enough of the marks."""
        return not self.marks or any(line.count(mark) >= times for mark, times in self.marks)


_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_VERSION_BEFORE = re.compile(
    r"(?:version\w{0,8}|ver|rel|release|mnn|driver|engine|api|sdk|firmware|opencl|vulkan|build)[\s\"':=_v-]{0,4}$",
    re.IGNORECASE,
)
_ADDRESS_BEFORE = re.compile(
    r"(?:\b(?:inet|ip|addr(?:ess)?|host|connect(?:ed)? to|from|via|dst|src|dns|gateway|gw|server|peer)[\s\"':=/]{0,3}|"
    r"//|@)$",
    re.IGNORECASE,
)
_MEASURED_BEFORE = re.compile(r"_(?:ns|us|ms|bytes|khz)\W{1,5}$")
_MEASURED_AFTER = re.compile(r"\s?(?:[kKMG]?i?B|bytes|[num]s|Hz)\b")
_COUNTED_BEFORE = re.compile(r"(?:offset|delta|diff|addr(?:ess)?|size|len(?:gth)?|bytes|at|by)\W{0,3}$", re.IGNORECASE)
# Above it a number of four is hardly a part of a version.
_LARGEST_OF_VERSION = 31
# How an address of IPv6 that is shortened by `::` begins: global, local to a site or a link, many, translated, mapped.
_FIRST_GROUP = re.compile(
    r"(?:[23][0-9a-f]{3}|f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]|ff0[0-9a-f]|64):|::ffff:[0-9a-f]{1,4}:", re.IGNORECASE
)
_GROUPS = 8
_FEWEST_OF_TELEPHONE = 9


def is_ipv4(match: re.Match[str]) -> bool:
    """Return whether four numbers are somebody's address: no version, by what stands beside them; not every host's."""
    before, after = (
        match.string[max(0, match.start() - 24) : match.start()],
        match.string[match.end() : match.end() + 6],
    )
    numbers = [int(number) for number in match[0].split(".")]
    if numbers[0] in (0, 127, 255) or _VERSION_BEFORE.search(before):  # this host, any host, a mask
        return False
    if _ADDRESS_BEFORE.search(before) or re.match(r":\d{2,5}\b|/\d{1,2}\b", after):
        return True
    return numbers[0] == 10 or max(numbers) > _LARGEST_OF_VERSION


def is_ipv6(match: re.Match[str]) -> bool:
    """Return whether hex groups are an address: no time, no name of C++, no list of bytes."""
    text = match[0]
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return text.count(":") == _GROUPS - 1 or _FIRST_GROUP.match(text) is not None


def _is_mac(match: re.Match[str]) -> bool:
    """Return whether hex pairs are a device's: those for nobody, for all, and what Android shows instead are none."""
    return len(set(re.findall(r"[0-9a-f]{2}", match[0].lower())) - {"00", "02", "ff"}) > 0


def _is_number_of_a_person(match: re.Match[str]) -> bool:
    """Return whether digits may be an IMEI, an IMSI, an IMEISV or an ICCID; registers and nanoseconds are none."""
    digits = match[0]
    if digits.startswith("00") or _MEASURED_BEFORE.search(match.string, max(0, match.start() - 12), match.start()):
        return False
    if _MEASURED_AFTER.match(match.string, match.end()):
        return False
    return len(digits) in (14, 15, 16) or digits.startswith("89")


def _is_no_processor(match: re.Match[str]) -> bool:
    return not is_processor(match["secret"])


def _is_telephone(match: re.Match[str]) -> bool:
    """Return whether a number with digits enough may be called: a distance in memory or in time may not."""
    if _COUNTED_BEFORE.search(match.string, max(0, match.start() - 12), match.start()):
        return False
    return sum(char.isdigit() for char in str(match["secret"])) >= _FEWEST_OF_TELEPHONE


_AT = r"(?:/storage/(?:emulated/\d{1,3}|[0-9A-F]{4}-[0-9A-F]{4})|/sdcard|/mnt/sdcard|/data/media/\d{1,3})/"
_DEGREES = r"-?\d{1,3}\.\d{1,15}"
# Between a key and its value, in logs, dumps, command lines and JSON.
_IS = r"[\"'\]]{0,2}(?:\s{0,20}[:=]\s{0,4}|\s{1,3})[\"'\[]{0,2}"
_SAID = r"[\"'\]]{0,2}\s{0,20}[:=]\s{0,4}[\"'\[]{0,2}"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PAIR = r"[0-9a-f]{2}"
_NOTHING = r"(?!(?:null|none|true|false|unknown|localhost|not set|\*+|<)(?![\w-]))"
# How tokens of services begin.
_TOKEN_WORDS = (
    "eyj", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "hf_", "sk-", "ya29.", "aiza", "akia", "xox",
    "glpat-", "apa91b",
)  # fmt: skip
# A row of `dumpsys settings`, up to its value and up to its default.
_ROW = r"\bname:(?:{names})\b.{{0,60}}?\b{column}:(?P<secret>{value})"
_NAMES = "device_name|bluetooth_name|wifi_p2p_device_name|owner_info|lock_screen_owner_info"
_IDS = "android_id|advertising_id|gsf_id"
_OF_ROW = r"(?!null\b)[^\s\n<].{0,63}?(?= default:| defaultSystemSet:| pkg:| tag:|$)"
_DEVICE = (
    r"(?:Pixel|Galaxy|i?Phone|Handy|Tablet|iPad|Tab\b|Buds|AirPods|Watch|Redmi|Xiaomi|Mi\b|OnePlus|Nord|Note|Laptop|"
    r"MacBook|PC\b|Car\b|TV\b|Echo|Head(?:set|phones)|[A-Z]\d{1,2}\b)"
)


def _kind(
    name: str,
    pattern: str,
    words: tuple[str, ...] = (),
    check: Check = lambda _: True,
    *,
    marks: tuple[tuple[str, int], ...] = (),
    flags: int = re.IGNORECASE,
) -> Kind:
    return Kind(name, re.compile(pattern, flags), words, marks, check)


#: In the order in which they are looked for: what a mail address holds is no address of a network.
KINDS = (
    _kind("secret", r"//(?P<secret>[^\s/:@<>\"']{1,64}:[^\s/@<>\"']{1,128})@", ("//",)),
    _kind(
        "secret",
        r"\b(?:proxy-)?authorization" + _SAID + r"(?:(?:bearer|basic|token|digest)\s{1,3})?"
        r"(?P<secret>[^\s\"',<]{4,2000})",
        ("authorization",),
    ),
    _kind("secret", r"\bbearer\s{1,3}(?P<secret>[\w.~+/=-]{12,2000})", ("bearer",)),
    _kind("secret", r"\bcookie" + _SAID + r"(?P<secret>[^\n\"'<]{4,2000})", ("cookie",)),
    _kind(
        "secret",
        r"\b(?:eyJ[\w-]{8,2000}\.[\w-]{4,2000}(?:\.[\w-]{1,2000})?|gh[opsur]_\w{20,100}|github_pat_\w{20,120}|"
        r"hf_[A-Za-z0-9]{20,60}|sk-[\w-]{16,200}|ya29\.[\w.-]{6,2000}|AIza[\w-]{20,60}|AKIA[A-Z0-9]{12,20}|"
        r"xox[abprs]-[\w-]{10,100}|glpat-[\w-]{16,60}|APA91b[\w-]{10,300})",
        _TOKEN_WORDS,
        flags=0,
    ),
    _kind(
        "secret",
        r"(?<![a-z])(?:password|passwd|passphrase|psk|wep_key\d?|client_?secret|secret|api[_-]?key|access[_-]?key|"
        r"(?:access|auth|refresh|id|oauth)[_-]?token)" + _SAID + _NOTHING + r"(?P<secret>[^\s\"',;&<>]{4,2000})",
        ("passw", "passphrase", "psk", "wep_key", "secret", "key", "token"),
    ),
    _kind(
        "secret",
        r"\b[A-Z][A-Z0-9_]{0,40}_(?:TOKEN|SECRET|PASSWORD|PASSWD|KEY)=[\"']?(?P<secret>(?!/)[^\s\"'<]{8,2000})",
        ("_token=", "_secret=", "_password=", "_passwd=", "_key="),
        flags=0,
    ),
    _kind(
        "secret",
        r"[?&](?:token|key|sig|signature|auth|code)=(?P<secret>[\w%.~+/=-]{8,2000})",
        ("token=", "key=", "sig=", "signature=", "auth=", "code="),
    ),
    _kind(
        "account",
        r"(?<![\w.+-])[\w.+-]{1,64}(?:@|%40)(?:[\w-]{1,63}\.){1,4}(?!so\b)[^\W\d_]{2,24}(?![\w-])",
        ("@", "%40"),
    ),
    _kind("account", r"\bAccount ?\{name=(?P<secret>[^,}\n<]{1,80})", ("{name=",)),
    _kind(
        "account",
        r"\b(?:m?account ?name|owner ?name|login ?name)" + _SAID + _NOTHING + r"(?P<secret>[^,;}\"'\n<]{2,80})",
        ("account", "owner", "login"),
    ),
    # A prompt of a shell on the PC, and what ssh and scp are told.
    _kind(
        "account",
        r"(?:^|[\s\[])(?P<secret>[a-z_][\w.-]{0,31}@[a-z0-9][\w.-]{0,62})(?=:[~/]| [\w~./-]{1,40}\][$#])",
        ("@",),
    ),
    _kind(
        "account",
        r"\b(?:for|key|user|ssh|scp|comment)\s{1,3}[\"']?"
        r"(?P<secret>[a-z_][\w.-]{0,31}@[a-z][\w-]{1,62})\b",
        ("@",),
    ),
    _kind("name", r"\bUserInfo\{\d{1,4}:(?P<secret>[^:}\n<]{1,64}):", ("userinfo{",)),
    _kind(
        "mac",
        rf"(?<![0-9a-f])(?<![^0-9a-z]{_PAIR}[:-]){_PAIR}(?P<by>[:-])(?:{_PAIR}(?P=by)){{4}}{_PAIR}"
        rf"(?:(?P=by){_PAIR}){{0,2}}(?![0-9a-f]|[:-]{_PAIR})",
        (),
        _is_mac,
        marks=((":", 5), ("-", 5)),
    ),
    _kind("mac", rf"\bdev_(?P<secret>(?:{_PAIR}_){{5}}{_PAIR})(?![0-9a-z])", ("dev_",), _is_mac),
    _kind(
        "mac",
        r"(?<![a-z])(?:m?(?:bt|wifi|wlan|eth|device)?_?mac(?:[ _]?addr(?:ess)?)?|hw ?addr(?:ess)?|m?bssid|"
        r"bd_?addr(?:ess)?)" + _IS + rf"(?P<secret>(?:{_PAIR}){{6}}|[0-9a-f]{{4}}\.[0-9a-f]{{4}}\.[0-9a-f]{{4}})\b",
        ("mac", "hwaddr", "hw addr", "bdaddr", "bd_addr", "bssid"),
        _is_mac,
    ),
    _kind("ip", r"(?<![\w.:-])[0-9a-f:]{3,39}(?![\w:])", ("::",), is_ipv6),
    _kind("ip", r"(?<![\w.:-])(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\w:])", (), is_ipv6, marks=((":", 7),)),
    _kind("ip", rf"(?<![\w.-])(?:{_OCTET}\.){{3}}{_OCTET}(?!\w|\.\d)", (), is_ipv4, marks=((".", 3),)),
    _kind(
        "android-id",
        r"(?:(?:android|\bdevice)[ _]?id|\bssaid)[\"'\]: =\[]{1,6}(?P<secret>[0-9a-f]{16})\b",
        ("androidid", "android_id", "android id", "deviceid", "device_id", "device id", "ssaid"),
    ),
    *(
        _kind(name, _ROW.format(names=names, column=column, value=value), ("name:",))
        for name, names, value in (("android-id", _IDS, r"[0-9a-f-]{12,36}\b"), ("name", _NAMES, _OF_ROW))
        for column in ("value", "default")
    ),
    _kind(
        "id",
        r"\b(?:gsf[ _]?(?:android[ _]?)?id|gsf|gservices.{0,20}android_id)[\"'\]: =\[]{1,6}"
        r"(?P<secret>[0-9a-f]{12,20})\b",
        ("gsf", "gservices"),
    ),
    _kind(
        "id",
        r"(?:advertising ?_?id\w{0,10}|\b(?:ad_?id|gaid|oaid|vaid|aaid|idf[av]))\W{1,4}(?:\w{1,12}\W{1,3})?"
        rf"(?P<secret>{_UUID})",
        ("advertising", "adid", "ad_id", "aid", "idf"),
    ),
    _kind(
        "number",
        r"(?:imei|meid|imsi|iccid|msisdn|esn)\w{0,4}[\"'\]: =\[#]{0,8}"
        r"(?P<secret>\d{2}[ -]\d{6}[ -]\d{6}(?:[ -]\d{1,2})?|[0-9a-f]{6,22})\b",
        ("imei", "meid", "imsi", "iccid", "msisdn", "esn"),
    ),
    _kind("number", r"\beid[\"'\]: =\[#]{1,6}(?P<secret>\d{20,32})\b", ("eid",)),
    _kind("number", r"(?<![\w.-])\d{14,20}(?!\w|\.\d)", (), _is_number_of_a_person),
    _kind(
        "telephone",
        r"(?<![\w)\]>+.])(?P<secret>\+[1-9]\d{0,2}[ -]?(?:\(?\d{2,11}\)?[ -]?){1,5}(?<=\d))(?!\w)",
        ("+",),
        _is_telephone,
    ),
    _kind(
        "telephone", r"\b(?:tel|sms|smsto|callto):(?P<secret>[\d ()/+-]{5,20}\d)", ("tel:", "sms:", "smsto:", "callto:")
    ),
    _kind(
        "telephone",
        r"(?:(?:phone|line1|mobile|incoming|outgoing|calling|called|dialed|contact)[ _]?number|\bmsisdn)"
        + _IS
        + r"(?P<secret>[+\d][\d ()/-]{5,18}\d)\b",
        ("number", "msisdn"),
    ),
    _kind("telephone", r"\bnumber" + _SAID + r"(?P<secret>0[1-9][\d /-]{7,14}\d)\b", ("number",), _is_telephone),
    _kind("ssid", r"\b(?:e?ssid|network ?name)\b[\"']?\s?[:=]?\s?\"(?P<secret>[^\"\n]{1,64})\"", ("ssid", "network")),
    _kind("ssid", r"\b(?:e?ssid)\b[\"']?\s?[:=]?\s?'(?P<secret>[^'\n]{1,64})'", ("ssid",)),
    _kind(
        "ssid",
        r"\be?ssid\s?[:=]\s?(?P<secret>(?![<\"'])"
        r"(?:[^,;=:\n\"'{}\[\]()<]{1,32}(?=[,;])|[^\s,;<\"']{1,32}))",
        ("ssid",),
    ),
    _kind(
        "ssid",
        r"\"(?P<secret>[^\"\n<]{1,32})\"[- ]?(?:WPA\d?|WEP|SAE|OWE)(?:_|\b)",
        ('"wpa', '"-wpa', '"wep', '"sae', '"-sae', '"owe', '" wpa'),
    ),
    _kind("name", r"bluetooth.{0,60}?\bname(?: is)?\s?[:=]\s?\"?(?P<secret>[^,\"\n<]{1,64})", ("bluetooth",)),
    _kind(
        "name",
        r"(?<![/a-z])(?:(?:(?:wifi_p2p_)?device_name|bluetooth_name)\"?(?:\s?[:=]\s?|\s)|"
        r"(?:device ?name|bluetooth name|friendly ?name)\"?\s?[:=]\s?)\"?"
        + _NOTHING
        + r"(?P<secret>(?!pkg:)[^,\"\n<\s:=][^,\"\n<]{0,63})",
        ("name",),
        _is_no_processor,
    ),
    _kind("name", r"\bWifiP2pDevice: Device: (?P<secret>[^\n<]{1,64})", ("wifip2pdevice",)),
    _kind(
        "name",
        r"\[ ?(?:DUAL|BR/?EDR|LE) ?\](?:\s?\[[^\]\n]{0,40}\])? (?P<secret>[^\n<\[]{1,64})",
        ("dual", "edr", " le ", "[le"),
    ),
    _kind(
        "name", rf"\bname: (?P<secret>[^\n<,]{{1,64}}?)\s{{1,8}}(?:address|addr|mac): ?(?:<mac-|{_PAIR}:)", ("name:",)
    ),
    # People name their phones after themselves.
    _kind(
        "name",
        rf"\b(?P<secret>(?!(?:Android|Google|Samsung|Qualcomm|It|That|There|Here|What|Let)['’])"
        rf"[^\W\d_][\w-]{{1,20}}['’]s {_DEVICE}(?: ?[A-Z0-9][\w+]{{0,10}}){{0,3}})",
        ("'s ", "’s "),
        flags=0,
    ),
    _kind(
        "name", rf"\b(?P<secret>{_DEVICE}[\w +-]{{0,16}} (?:von|de) [^\W\d_][\w-]{{1,20}})", (" von ", " de "), flags=0
    ),
    _kind(
        "user",
        r"(?:(?:(?<![\w./])(?:/var|/export)?|//|(?<=-[ILBF]))/home/|/Users/|"
        r"[A-Z]:[\\/]{1,2}Documents and Settings[\\/]{1,2}|"
        r"(?<![\w./])(?:/run)?/media/)(?P<secret>(?!sdcard|usb|rw\b)[^/\\\s:\"'<>]{1,64})(?=/|[\\\s:\"'<>;,)\]]|$)",
        ("/home/", "/users/", "documents and", "/media/"),
    ),
    _kind("user", r"[A-Z]:\\+Users\\+(?P<secret>[^/\\:\"'<>\n]{1,64}(?=\\)|[^/\\\s:\"'<>]{1,64})", ("users\\",)),
    _kind(
        "user",
        r"\b(?:USER|LOGNAME|USERNAME|SUDO_USER)=[\"']?(?P<secret>[^\s\"'<;,]{1,64})",
        ("user=", "logname=", "username="),
        flags=0,
    ),
    _kind(
        "host",
        r"\b(?:hostname|computername|host_name)" + _SAID + _NOTHING + r"(?P<secret>[\w.-]{2,63})",
        ("hostname", "computername", "host_name"),
    ),
    _kind(
        "host",
        r"(?<![\w./-])(?P<secret>[a-z0-9][\w-]{1,62})\.(?:local|lan|localdomain|fritz\.box)\b(?![/-]|\.\w)",
        (".local", ".lan", ".fritz.box"),
    ),
    _kind("host", r"\badb(?:\.exe)? -H (?P<secret>(?!localhost\b|127\.)[A-Za-z][\w.-]{1,63})", ("adb",)),
    # Apps' own folders, which Android names; everything else there may be called as its owner likes.
    _kind("file", r"\"" + _AT + r"(?P<secret>(?!Android/)[^\n\"<>]{1,255})\"", ("/storage/", "/sdcard/", "/media/")),
    _kind("file", _AT + r"(?P<secret>(?!Android/)[^\s\"',;:)<>]{1,255})", ("/storage/", "/sdcard/", "/media/")),
    _kind("place", r"\bLocation\[\w{1,20} (?P<secret>-?\d{1,3}[.,]\d{1,12},-?\d{1,3}[.,]\d{1,12})", ("location[",)),
    _kind("place", rf"(?:latitude|longitude)\W{{1,5}}?(?P<secret>{_DEGREES})", ("latitude", "longitude")),
    _kind(
        "place",
        rf"\blat\W{{1,3}}?(?P<secret>{_DEGREES}.{{1,12}}?\bl(?:on|ng)\W{{1,3}}?{_DEGREES})",
        ("lat=", "lat:", 'lat"', "lat "),
    ),
    _kind("place", rf"\bgeo:(?P<secret>{_DEGREES},{_DEGREES})", ("geo:",)),
)
