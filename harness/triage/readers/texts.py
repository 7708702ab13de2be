"""Lines of what a model wrote that are one loop, in texts of people that no tool's output is known in. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.triage.entry import Entry

# One sign (rulers, digits and brackets of good texts left out), one letter beyond ASCII, or one word, again and again.
_LOOP = re.compile(
    r"(?P<sign>[!?])(?P=sign){29,}"
    r"|(?P<letter>[^\W\d_\x00-\x7f])(?P=letter){15,}"
    r"|(?<!\w)(?P<word>[^\W\d_]{2,16})(?:[ ,]{1,2}(?P=word)){14,}"
)
_MOJIBAKE = re.compile(r"(?:锟斤拷){3,}|烫{6,}|屯{6,}")


def text_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the first line that is one loop, or what broken bytes look like, as a line for rules."""
    for entry in entries:
        text = entry.text[:600]
        match = _LOOP.search(text)
        if match is not None:
            piece = next(part for part in match.groups() if part)
            yield Entry(f"text: loop detail=[{piece!r} is repeated again and again]", "table", entry.evidence)
            return
        if _MOJIBAKE.search(text):
            yield Entry("text: loop detail=[it is what broken bytes look like]", "table", entry.evidence)
            return
