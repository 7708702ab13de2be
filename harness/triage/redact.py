"""Takes out of findings what tells one phone, or its owner, from all others: for logs that go to strangers. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from harness.triage.entry import Evidence
from harness.triage.finding import Finding

# Kind → what looks like it. Order matters: a longer one may hold a shorter one.
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("account", re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")),
    ("mac", re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")),
    ("ip", re.compile(r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]*\d)")),
    ("ip", re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}(?::?[0-9a-fA-F]{1,4}){1,4}(?![\w:])")),
    # The short form with `::`; a digit tells it from names of C++.
    ("ip", re.compile(r"(?<![\w:])(?=[0-9a-fA-F:]{0,39}\d)[0-9a-fA-F]{1,4}:(?::[0-9a-fA-F]{1,4}){1,6}(?![\w:])")),
    ("android-id", re.compile(r"(?i)(?<=android_id)([\"'\]: =\[]{1,6})[0-9a-f]{16}\b")),
    ("user", re.compile(r"((?:/home/|/Users/|[A-Z]:\\Users\\))[^/\\\s:]{1,64}")),
    ("number", re.compile(r"(?<![\d.x])\d{14,20}(?![\d.])")),
)  # fmt: skip
# Words behind which a serial stands: adb's lists and messages, properties.
_SERIAL = re.compile(
    r"(?P<before>\bserial(?:no)?\b[\"'\]]{0,2}\s{0,2}[:=]\s{0,2}[\"'\[]{0,2}|\bdevice '|\bserial |-s |\bSERIAL=|"
    r"transport '|phone=|with serial )(?P<serial>[A-Za-z0-9._:-]{4,64})"
)
_LISTED = re.compile(
    r"^(?P<serial>[A-Za-z0-9._:-]{4,64})(?<!:)(?P<after>\s{1,20}(?:device|offline|unauthorized|authorizing|recovery|"
    r"no permissions|sideload|bootloader|host|connecting)"
    r"(?=\s{0,4}$|\s{1,4}(?:usb|product|model|device|transport_id):|;| \())"
)


def mask(text: str, serials: Iterable[str] = ()) -> str:
    """Return a text with serials, accounts, addresses and ids masked, e.g. as ``<ip>``; ``serials`` are known ones."""
    for serial in sorted({one for one in serials if len(one) >= 4}, key=len, reverse=True):
        text = text.replace(serial, "<serial>")
    text = _LISTED.sub(r"<serial>\g<after>", text)
    text = _SERIAL.sub(r"\g<before><serial>", text)
    for kind, pattern in _PATTERNS:
        text = pattern.sub((r"\1" if pattern.groups else "") + f"<{kind}>", text)
    return text


def serials_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the serials that texts name as such, to be masked where they stand without saying so."""
    found: set[str] = set()
    for text in texts:
        found.update(match["serial"] for match in (_LISTED.match(text), _SERIAL.search(text)) if match is not None)
    return frozenset(found)


def redacted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with everything masked that comes from a phone or a computer: evidence, titles and file names."""
    findings = tuple(findings)
    serials = serials_of(one.text for finding in findings for one in finding.evidence)

    def clean(text: str) -> str:
        return mask(text, serials)

    return tuple(
        replace(
            finding,
            title=clean(finding.title),
            cause=clean(finding.cause),
            advice=tuple(map(clean, finding.advice)),
            evidence=tuple(Evidence(clean(one.source), one.line, clean(one.text)) for one in finding.evidence),
        )
        for finding in findings
    )
