"""Keys of properties and of JSON whose values are somebody's own. Pure."""

from __future__ import annotations

import re

_PRIVATE_KEY = re.compile(
    r"(?P<serial>serial(?!i[sz])|(?:^|[._])(?:p?sno|device_?sn|sn\d?|em\.did)$)|"
    r"(?P<ssid>\bssid)|(?P<mac>mac_?(?:addr|$)|bdaddr|btmac|wifimac)|(?P<host>hostname)|"
    r"(?P<android_id>android_?id$|\bssaid$)|(?P<id>advertising_?id|\b[gov]aid$|\badid$|gsf_?id)|"
    r"(?P<name>device_?name$|bluetooth[._]?name)|(?P<place>\b(?:lat(?:itude)?|lng|lon(?:gitude)?)$)|"
    r"(?P<user>\buser(?:_?name)?$|\blogname$)|(?P<account>^(?:account|login|owner)$|account_?name$|\be?mail(?:_?address)?$)|"
    r"(?P<secret>passw(?:or)?d$|passphrase$|api_?key$|secret(?:_?key)?$|(?:access|auth|refresh|id|session)_?token$)|"
    r"(?P<telephone>line1|phone_?number$|msisdn)|(?P<number>imei|meid|imsi|iccid|subscriber_?id|esn$|\beid$|cpuid$)",
    re.IGNORECASE,
)
_NO_SECRET = frozenset((
    "", "unknown", "none", "null", "device", "host", "usb", "shell", "serial", "localhost", "true", "false", "0",
    "1", "root", "user", "system",
))  # fmt: skip
#: Letters without which no key is private.
KEY_WORDS = (
    "serial", "sno]", "sno=", "sn]", "sn=", "sn1", "sn2", "sn0", "em.did", "ssid", "mac", "bdaddr", "hostname",
    "androidid", "android_id", "ssaid", "advertising", "aid", "adid", "gsf", "devicename", "device_name",
    "bluetooth", "latitude", "longitude", '"lat"', '"lng"', '"lon"', "username", "user_name", "logname", '"user"',
    '"account"', '"login"', '"owner"', "accountname", "account_name", "mail", "passw", "passphrase", "apikey",
    "api_key", "secret", "token", "line1", "phonenumber", "phone_number", "msisdn", "imei", "meid", "imsi", "iccid",
    "subscriber", "esn", "eid", "cpuid",
)  # fmt: skip
#: Keys whose values are versions and hashes: four numbers there are no address.
VERSION_KEY = re.compile(r"version|fingerprint|hash|sha256|build|driver|release", re.IGNORECASE)
PROPERTY = re.compile(r"^\[(?P<key>[^\]\n]{1,120})\]: \[(?P<secret>[^\n]*)\]\r?$")
#: Properties as files and the kernel's command line write them.
DOTTED = re.compile(r"(?<![\w.])(?P<key>[a-z]\w{1,30}(?:\.[\w-]{1,40}){1,8})=[\"']?(?P<secret>[^\s,;\]\"'<]+)")
_PROCESSOR = re.compile(
    r"adreno|mali|immortalis|powervr|rogue|swiftshader|llvmpipe|xclipse|videocore|virgl|gfxstream|qualcomm|hexagon|"
    r"geforce|nvidia|radeon|\b(?:amd|arm|img|intel|apple m\d|cpu|gpu|npu|opencl|vulkan|lavapipe|venus)\b",
    re.IGNORECASE,
)


def kind_of_key(key: str) -> str | None:
    """Return what kind of secret stands under a key of properties or of JSON, ``None`` where it is none."""
    found = _PRIVATE_KEY.search(key)
    return None if found is None or found.lastgroup is None else found.lastgroup.replace("_", "-")


def is_said(kind: str, value: str) -> bool:
    """Return whether a value under a private key says something of somebody."""
    if value.lower() in _NO_SECRET or value.startswith("<"):
        return False
    return kind != "name" or not is_processor(value)


def is_processor(name: str) -> bool:
    """Return whether a device's name is that of a GPU, an NPU or a CPU, which nobody chose."""
    return _PROCESSOR.search(name) is not None
