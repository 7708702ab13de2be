"""Takes out of texts what tells one phone, or its owner, from all others: for logs that go to strangers. Pure.

The same secret gets the same placeholder in everything that one :class:`Redactor` sees, e.g. ``<serial-1>``: two phones
can still be told apart. JSON stays JSON: only the inside of its strings changes, and private numbers.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from harness.triage.entry import Evidence
from harness.triage.finding import Finding
from harness.triage.keys import DOTTED, KEY_WORDS, PROPERTY, VERSION_KEY, is_said, kind_of_key
from harness.triage.personal import KINDS, Kind
from harness.triage.serials import WORDS as SERIAL_WORDS
from harness.triage.serials import serials_in
from harness.triage.suspects import Suspects

_SHORTEST = 4
# A shorter secret is masked as a word of its own only: it may be a part of a hash or of an address.
_LONG_ENOUGH = 7
# More than a text of one phone names; each costs time for every byte.
_MOST_LEARNED = 200
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER = re.compile(r"(\s*:\s*)(-?\d[\d.eE+-]*)")
_COLON = re.compile(r"\s*:")
_DEGREES = re.compile(r"-?\d{1,3}\.\d{3,}")
_JSON_NAMES = (".json", ".jsonl", ".ndjson")
_NEVER = frozenset({"unknown", "none", "null", "device", "offline", "host", "usb", "shell", "serial", "localhost"})
_SMALL = {ord(char): ord(char) + 32 for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
# Escapes of JSON may hide a shape.
_SUSPECTS = Suspects((*(word for kind in KINDS for word in kind.words), *KEY_WORDS, *SERIAL_WORDS, "\\u"))
_KEY_BLOCK = re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)([^-]{1,20000})(?=-----END|$)")
_LEARNED = tuple(kind for kind in KINDS if kind.name in ("ssid", "name", "account"))
_NAMERS = Suspects((*(word for kind in _LEARNED for word in kind.words), *SERIAL_WORDS), shapes=False)
# Which kinds a word speaks for, by their places.
_SPEAKS_FOR = {
    word: tuple(place for place, kind in enumerate(KINDS) if word in kind.words)
    for word in dict.fromkeys(word for kind in KINDS for word in kind.words)
}
_SHAPES = tuple(place for place, kind in enumerate(KINDS) if not kind.words)


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
        self._learned = 0
        self._pattern: re.Pattern[str] | None = None
        self._bytes_pattern: re.Pattern[bytes] | None = None
        self.know("serial", serials)

    def know(self, kind: str, secrets: Iterable[str]) -> None:
        """Mask these wherever they stand from now on, whatever stands beside them."""
        for secret in secrets:
            if len(secret) >= _SHORTEST and secret.lower() not in _NEVER:
                self._known.setdefault(_folded(secret), kind)
        # The longest first: one may be a part of another.
        words = sorted(self._known, key=len, reverse=True)
        pattern = "|".join(map(_anywhere, words))
        self._pattern = re.compile(pattern, re.ASCII) if words else None
        self._bytes_pattern = re.compile(_as_bytes(pattern)) if words else None

    def learn(self, texts: Iterable[str]) -> None:
        """Know what texts name as a serial, or as a name that no word is, to mask it where it stands alone."""
        found: dict[tuple[str, str], None] = {}
        for text in texts:
            lines = text.split("\n")
            for number in _NAMERS.lines(_as_bytes(text)):
                found.update(dict.fromkeys(_named_in(lines[number])))
        for kind, secret in found:
            if self._learned < _MOST_LEARNED and _folded(secret) not in self._known:
                self._learned += 1
                self._known[_folded(secret)] = kind
        self.know("serial", ())

    def names(self, text: str) -> str:
        """Mask what is known. For what we wrote ourselves, where every number is a measurement."""
        if self._pattern is None:
            return text
        parts, at = [], 0
        for match in self._pattern.finditer(_folded(text)):
            parts += [text[at : match.start()], self._place(self._known[match[0]], match[0])]
            at = match.end()
        return "".join([*parts, text[at:]])

    def text(self, text: str) -> str:
        """Mask everything that is somebody's in a text of any number of lines."""
        if "PRIVATE KEY-----" in text:
            text = _KEY_BLOCK.sub(self._without_key, text)
        lines = text.split("\n")
        for number in _SUSPECTS.lines(_as_bytes(text), self._bytes_pattern):
            lines[number] = self._json_line(lines[number])
        return "\n".join(lines)

    def json(self, text: str) -> str:
        """Mask inside the strings of a JSON document, and private numbers; what is none is masked as text."""
        return self._json(text, self._value) if _is_json(text) else self.text(text)

    def member(self, name: str, data: bytes, *, ours: bool = False) -> bytes:
        """Mask a file of this name; bytes that are no UTF-8 stay as they are. Of what is ours only what is known."""
        text = data.decode("utf-8", "surrogateescape")
        is_json = name.endswith(_JSON_NAMES)
        if ours:
            masked = self._ours(text) if is_json else self.names(text)
        else:
            masked = self.json(text) if is_json else self.text(text)
        return masked.encode("utf-8", "surrogateescape")

    def told(self) -> list[str]:
        """Say what was masked and how often, e.g. ``serial: 3``."""
        return [f"{kind}: {count}" for kind, count in sorted(self.counts.items())]

    def _place(self, kind: str, secret: str) -> str:
        self.counts[kind] += 1
        key = (kind, _canonical(kind, secret))
        if key not in self._places:
            self._last[kind] += 1
            self._places[key] = f"<{kind}-{self._last[kind]}>"
        return self._places[key]

    def _without_key(self, match: re.Match[str]) -> str:
        lines = match[2].split("\n")
        return match[1] + "\n".join(self._place("secret", line) if line.strip() else line for line in lines)

    def _ours(self, text: str) -> str:
        """Mask what is known in a JSON document, or in lines of JSON, which stay so."""
        if _is_json(text):
            return self._json(text, lambda _, said: self.names(said))
        if "\n" not in text:
            return self.names(text)
        return "\n".join(self._ours(line) for line in text.split("\n"))

    def _json_line(self, line: str) -> str:
        looks_so = line.lstrip()[:1] in ("{", "[") and '"' in line
        return self._json(line, self._value) if looks_so and _is_json(line) else self._line(line)

    def _json(self, text: str, value: Callable[[str, str], str]) -> str:
        """Mask inside the strings of what is JSON: everything between them stays, byte by byte."""
        parts, at, key = [], 0, ""
        private = value == self._value
        for match in _STRING.finditer(text):
            if match.start() < at:
                continue  # inside of what was taken along with a key
            parts.append(text[at : match.start()])
            said, at = str(json.loads(match[0], strict=False)), match.end()
            is_key = _COLON.match(text, at) is not None
            parts.append(_quoted(value("" if is_key else key, said), match[0], said))
            kind = kind_of_key(said) if is_key and private else None
            number = None if kind is None else _NUMBER.match(text, at)
            if kind is not None and number is not None and (kind != "place" or _DEGREES.fullmatch(number[2])):
                parts.append(number[1] + json.dumps(self._place(kind, number[2])))
                at = number.end()
            key = said if is_key else ""
        return "".join([*parts, text[at:]])

    def _value(self, key: str, said: str) -> str:
        """Mask a string of JSON that stands under ``key``, ``""`` for none."""
        if not said:
            return said
        kind = kind_of_key(key)
        if kind is not None and is_said(kind, said):
            masked = self.names(said)
            return masked if masked != said else self._place(kind, said)
        mask = self._version_line if key and VERSION_KEY.search(key) else self._json_line
        return "\n".join(map(mask, said.split("\n")))

    def _version_line(self, line: str) -> str:
        return self._line(line, version=True)

    def _line(self, line: str, *, version: bool = False) -> str:
        line = self.names(line)
        private = PROPERTY.match(line)
        if private is not None and (kind_of_value := kind_of_key(private["key"])) is not None:
            return self._of_key(line, private, kind_of_value)
        for match in reversed(list(DOTTED.finditer(line)) if "=" in line else []):
            if (kind_of_value := kind_of_key(match["key"])) is not None:
                line = self._of_key(line, match, kind_of_value)
        small = line.lower()
        for serial in serials_in(line) if any(word in small for word in SERIAL_WORDS) else ():
            if _folded(serial) not in self._known:
                line = line.replace(serial, self._place("serial", serial))
        spoken = [places for word, places in _SPEAKS_FOR.items() if word in small]
        for kind in map(KINDS.__getitem__, sorted({*_SHAPES, *chain.from_iterable(spoken)})):
            if kind.may_be_in(line) and not (version and kind.name == "ip"):
                line = kind.pattern.sub(lambda match, kind=kind: self._masked(kind, match), line)  # type: ignore[misc]
        return line

    def _of_key(self, line: str, match: re.Match[str], kind: str) -> str:
        """Return a line with the value of a private key masked, unless it says that there is none."""
        secret = match["secret"]
        return _with(line, match, self._place(kind, secret)) if is_said(kind, secret) else line

    def _masked(self, kind: Kind, match: re.Match[str]) -> str:
        if not kind.check(match):
            return match[0]
        secret = match.groupdict().get("secret") or match[0]
        if not secret.strip() or secret.strip().startswith("<"):
            return match[0]
        whole = match[0]
        if secret == whole:
            return self._place(kind.name, whole)
        start = match.start("secret") - match.start()
        return whole[:start] + self._place(kind.name, secret) + whole[start + len(secret) :]


def mask(text: str, serials: Iterable[str] = ()) -> str:
    """Return a text with serials, accounts, addresses and ids masked, e.g. ``<ip-1>``; ``serials`` are known ones."""
    return Redactor(serials).text(text)


def redacted(findings: Iterable[Finding], texts: Iterable[str] = ()) -> tuple[Finding, ...]:
    """Return findings with everything masked that comes from a phone or a computer: evidence, titles and file names.

    Serials that ``texts`` name are masked where the evidence does not name them as such.
    """
    findings = tuple(findings)
    redactor = Redactor()
    redactor.learn(texts)
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


def _named_in(line: str) -> Iterator[tuple[str, str]]:
    """Yield what a line names, by kind, as far as it may be looked for everywhere without harm to other words."""
    small = line.lower()
    if any(word in small for word in SERIAL_WORDS):
        yield from (("serial", serial) for serial in serials_in(line))
    for kind in _LEARNED:
        if any(word in small for word in kind.words):
            for match in kind.pattern.finditer(line):
                secret = (match.groupdict().get("secret") or match[0]).strip()
                if len(secret) >= _LONG_ENOUGH - 1 and kind.check(match) and _is_no_word(kind.name, secret):
                    yield kind.name, secret


def _is_no_word(kind: str, secret: str) -> bool:
    """Whether it is nothing that a log says otherwise, as the name of a model or a permission is."""
    if "'" in secret or "’" in secret:
        return True
    return kind != "name" and any(char in " -_@" or char.isdigit() for char in secret)


def _canonical(kind: str, secret: str) -> str:
    """Return a secret without what is only its spelling: logs write the same one in several."""
    folded = _folded(secret)
    if kind in ("mac", "number", "telephone"):
        return "".join(char for char in folded if char.isalnum())
    if kind == "ip":
        with suppress(ValueError):
            return str(ipaddress.ip_address(folded))
    return folded.replace("%40", "@") if kind == "account" else folded


def _folded(secret: str) -> str:
    """Return a text as it is compared, in small letters and of the same length."""
    return secret.lower() if secret.isascii() else secret.translate(_SMALL)


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _anywhere(secret: str) -> str:
    """Return the pattern of a folded secret in folded texts."""
    word = re.escape(secret)
    return word if len(secret) >= _LONG_ENOUGH else rf"(?<![a-z0-9]){word}(?![a-z0-9])"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _with(line: str, match: re.Match[str], secret: str) -> str:
    return line[: match.start("secret")] + secret + line[match.end("secret") :]


def _quoted(masked: str, token: str, said: str) -> str:
    """Return a string of JSON; one that did not change stays as it was written."""
    return token if masked == said else json.dumps(masked)
