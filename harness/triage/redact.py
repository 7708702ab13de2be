"""Takes out of texts what tells one phone, or its owner, from all others: for logs that go to strangers. Pure.

The same secret gets the same placeholder in everything that one :class:`Redactor` sees, e.g. ``<serial-1>``: two phones
can still be told apart. JSON stays JSON: only the inside of its strings changes, and private numbers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from harness.triage.entry import Evidence
from harness.triage.finding import Finding
from harness.triage.personal import KINDS, PROPERTY, VERSION_KEY, Kind, kind_of_key, serials_in

_SHORTEST = 4
# A shorter secret is masked as a word of its own only: it may be a part of a hash or of an address.
_LONG_ENOUGH = 7
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER = re.compile(r"(\s*:\s*)(-?\d[\d.eE+-]*)")
_COLON = re.compile(r"\s*:")
_JSON_NAMES = (".json", ".jsonl", ".ndjson")
_NEVER = frozenset({"unknown", "none", "null", "device", "offline", "host", "usb", "shell", "serial", "localhost"})


class Redactor:
    """Masks texts, and counts what was masked, by kind.

    Attributes:
        counts: how often each kind was masked.
    """

    def __init__(self, serials: Iterable[str] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._places: dict[tuple[str, str], str] = {}
        self._last: Counter[str] = Counter()
        self._known: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self.know("serial", serials)

    def know(self, kind: str, secrets: Iterable[str]) -> None:
        """Mask these wherever they stand from now on, whatever stands beside them."""
        for secret in secrets:
            if len(secret) >= _SHORTEST and secret.lower() not in _NEVER:
                self._known.setdefault(_folded(secret), kind)
        # The longest first: one may be a part of another.
        words = sorted(self._known, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_anywhere, words)), re.IGNORECASE | re.ASCII) if words else None

    def learn(self, texts: Iterable[str]) -> None:
        """Know the serials that texts name as such, to mask them where they stand without saying so."""
        self.know(
            "serial",
            dict.fromkeys(serial for text in texts for line in text.split("\n") for serial in serials_in(line)),
        )

    def names(self, text: str) -> str:
        """Mask what is known. For what we wrote ourselves, where every number is a measurement."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._place(self._known[_folded(match[0])], match[0]), text)

    def text(self, text: str) -> str:
        """Mask everything that is somebody's in a text of any number of lines."""
        return "\n".join(self._json_line(line) for line in text.split("\n"))

    def json(self, text: str) -> str:
        """Mask inside the strings of a JSON document, and private numbers; what is none is masked as text."""
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return self.text(text)
        return self._json(text)

    def member(self, name: str, data: bytes) -> bytes:
        """Mask a file of this name; bytes that are no UTF-8 stay as they are."""
        text = data.decode("utf-8", "surrogateescape")
        masked = self.json(text) if name.endswith(_JSON_NAMES) else self.text(text)
        return masked.encode("utf-8", "surrogateescape")

    def told(self) -> list[str]:
        """Say what was masked and how often, e.g. ``serial: 3``."""
        return [f"{kind}: {count}" for kind, count in sorted(self.counts.items())]

    def _place(self, kind: str, secret: str) -> str:
        self.counts[kind] += 1
        key = (kind, _folded(secret).replace("-", ":") if kind == "mac" else _folded(secret))
        if key not in self._places:
            self._last[kind] += 1
            self._places[key] = f"<{kind}-{self._last[kind]}>"
        return self._places[key]

    def _json_line(self, line: str) -> str:
        if line.lstrip()[:1] in ("{", "[") and '"' in line:
            try:
                json.loads(line)
            except (ValueError, RecursionError):
                return self._line(line)
            return self._json(line)
        return self._line(line)

    def _json(self, text: str) -> str:
        """Mask inside the strings of what is JSON: everything between them stays, byte by byte."""
        parts, at, key = [], 0, ""
        for match in _STRING.finditer(text):
            if match.start() < at:
                continue  # inside of what was taken along with a key
            parts.append(text[at : match.start()])
            said, at = str(json.loads(match[0], strict=False)), match.end()
            is_key = _COLON.match(text, at) is not None
            parts.append(_quoted(self._value("" if is_key else key, said), match[0], said))
            kind = kind_of_key(said) if is_key else None
            number = None if kind is None else _NUMBER.match(text, at)
            if kind is not None and number is not None:
                parts.append(number[1] + json.dumps(self._place(kind, number[2])))
                at = number.end()
            key = said if is_key else ""
        return "".join([*parts, text[at:]])

    def _value(self, key: str, said: str) -> str:
        """Mask a string of JSON that stands under ``key``, ``""`` for none."""
        if not said:
            return said
        kind = kind_of_key(key)
        if kind is not None and said.lower() not in _NEVER and not said.startswith("<"):
            masked = self.names(said)
            return masked if masked != said else self._place(kind, said)
        version = bool(key and VERSION_KEY.search(key))
        return "\n".join(self._line(line, version=version) for line in said.split("\n"))

    def _line(self, line: str, *, version: bool = False) -> str:
        line = self.names(line)
        private = PROPERTY.match(line)
        kind_of_value = None if private is None else kind_of_key(private["key"])
        if private is not None and kind_of_value is not None:
            secret = private["secret"]
            if not secret or secret.startswith("<"):
                return line
            return _with(line, private, self._place(kind_of_value, secret))
        for serial in serials_in(line):
            if _folded(serial) not in self._known:
                line = line.replace(serial, self._place("serial", serial))
        for kind in KINDS:
            if kind.needle in line and not (version and kind.name == "ip"):
                line = kind.pattern.sub(lambda match, kind=kind: self._masked(kind, match), line)  # type: ignore[misc]
        return line

    def _masked(self, kind: Kind, match: re.Match[str]) -> str:
        if not kind.check(match):
            return match[0]
        secret = match.groupdict().get("secret") or match[0]
        if secret.strip().startswith("<"):
            return match[0]
        whole = match[0]
        if secret == whole:
            return self._place(kind.name, whole)
        start = match.start("secret") - match.start()
        return whole[:start] + self._place(kind.name, secret) + whole[start + len(secret) :]


def mask(text: str, serials: Iterable[str] = ()) -> str:
    """Return a text with serials, accounts, addresses and ids masked, e.g. ``<ip-1>``; ``serials`` are known ones."""
    return Redactor(serials).text(text)


def redacted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with everything masked that comes from a phone or a computer: evidence, titles and file names."""
    findings = tuple(findings)
    redactor = Redactor()
    redactor.learn(one.text for finding in findings for one in finding.evidence)
    clean = redactor.text
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


def serials_of(properties: Mapping[str, str], *known: str) -> list[str]:
    """Return a phone's serials: those known and those in its properties."""
    return [*known, *(value for key, value in properties.items() if key.endswith("serialno"))]


def _folded(secret: str) -> str:
    """Return a secret as it is compared: logs write the same one in capitals and in small letters."""
    return "".join(char.lower() if char.isascii() else char for char in secret)


def _anywhere(secret: str) -> str:
    word = re.escape(secret)
    return word if len(secret) >= _LONG_ENOUGH else rf"(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])"


def _with(line: str, match: re.Match[str], secret: str) -> str:
    return line[: match.start("secret")] + secret + line[match.end("secret") :]


def _quoted(masked: str, token: str, said: str) -> str:
    """Return a string of JSON; one that did not change stays as it was written."""
    return token if masked == said else json.dumps(masked)
