"""Lines of what a tool printed: untrusted bytes become plain lines, without Android's log prefixes.

Builds with ``MNN_USE_LOGCAT`` (MNN's default) print to the phone's log under the tag ``MNNJNI``, so that one and the
same line may come bare, or behind any of ``logcat``'s formats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A date and time, then the priority and tag of the formats threadtime (also with year, uid or zone) and time, and of
# Android Studio, which puts process and package first.
_STAMPED = re.compile(
    r"(?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{3,9}(?:\s+[+-]\d{4})?\s+"
    r"(?:"
    r"\d+[-/]\S+(?:\s+\d+)?\s+(?P<studio>\S+)\s+\S+\s+[VDIWEFA]\s+"
    r"|(?:\S+\s+){0,3}?[VDIWEFA][/ ]\s*(?P<tag>[^:(]{1,60}?)\s*(?:\(\s*\d+\))?\s*: ?"
    r")"
)
# Without a time a sentence may look like a tag ("I agree: …"), so that only tags of MNN count.
_BARE = re.compile(r"\s*[VDIWEFA][/ ]\s*(?P<tag>MNN\w*)\s*(?:\(\s*\d+\))?\s*: ?")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ENDS = re.compile(r"\r*\n|\r")
# A comment is what people and our samples write beside an output; MNN's own rulers (``####``) are none.
_COMMENT = re.compile(r"#(?!#)\s?(?P<says>.*)", re.DOTALL)


@dataclass(frozen=True)
class Line:
    """One line. ``tag`` is the log's tag when it came with a log prefix, ``raw`` the line with it."""

    text: str
    tag: str | None = None
    raw: str = ""

    @property
    def comment(self) -> str | None:
        """What a line that begins with ``# `` says, ``None`` for others."""
        match = _COMMENT.match(self.text) if self.tag is None else None
        return None if match is None else match["says"].strip()


def read_lines(output: bytes | str) -> tuple[Line, ...]:
    """Return the lines of an output in any encoding that terminals leave, with any line ends.

    What is not UTF-8 becomes U+FFFD; a byte order mark tells UTF-16, which PowerShell writes.
    """
    lines = _ENDS.split(_ANSI.sub("", output if isinstance(output, str) else _decode(output)))
    return tuple(split_prefix(line) for line in (lines[:-1] if lines and not lines[-1] else lines))


def split_prefix(raw: str) -> Line:
    """Return one line without the prefix that ``logcat`` or Android Studio put before it."""
    match = _STAMPED.match(raw) or _BARE.match(raw)
    if match is None:
        return Line(raw, None, raw)
    tag = match.groupdict().get("studio") or match["tag"]
    return Line(raw[match.end() :], tag, raw)


def _decode(output: bytes) -> str:
    if output[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return output.decode("utf-16", "replace")
    return output.decode("utf-8-sig", "replace")
