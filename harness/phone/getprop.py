"""``getprop``: ``[key]: [value]`` a line, where a value may itself hold line breaks and brackets."""

from __future__ import annotations

import re

_START = re.compile(r"^\[([^\]\n]+)\]: \[", re.MULTILINE)


def parse_getprop(data: bytes) -> dict[str, str]:
    """Return all properties; bytes that are no UTF-8 become U+FFFD, carriage returns of old adbd go away."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    starts = list(_START.finditer(text))
    properties: dict[str, str] = {}
    for match, following in zip(starts, [*starts[1:], None], strict=False):
        value = text[match.end() : following.start() if following else len(text)].rstrip("\n")
        if value.endswith("]"):
            properties[match[1]] = value[:-1]
    return properties
