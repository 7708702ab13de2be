"""The page's scripts and styles, and how much data travels in a page: compressed, as text that no parser looks into."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from harness.report.chart import plotly_source

TEMPLATES: Final = Path(__file__).with_name("templates")
# In the order in which they need each other.
_SCRIPTS: Final = ("page_base.js", "page_data.js", "page_cell.js", "page_table.js", "page_charts.js", "page_main.js")
# Data: four tenths of the time of the usual level, and a fifteenth more bytes.
_LEVEL: Final = 4
# A script that is packed for each report: the best level takes twice as long and saves a four-hundredth.
_SCRIPT_LEVEL: Final = 6
_FOR_HTML: Final = bytes.maketrans(b"<>&", b",.:")
_OF_HTML: Final = bytes.maketrans(b",.:", b"<>&")


def script() -> str:
    """Return our own script: small files in one function of their own."""
    parts = "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return f'(function () {{\n"use strict";\n{parts}\n}})();'


def style() -> str:
    """Return the page's style sheet."""
    return (TEMPLATES / "report.css").read_text(encoding="utf-8")


@cache
def plotly_packed() -> str:
    """Return plotly's script, packed: the page unpacks it when the first chart comes into view."""
    return _packed(plotly_source().encode(), _SCRIPT_LEVEL)


@cache
def plotly_hash() -> str:
    """Return by what the content security policy knows plotly's script."""
    return csp_hash(plotly_source())


def packed(value: Any) -> str:
    """Return a value as packed JSON.

    Raises:
        ValueError: it holds a number that JSON does not know.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _packed(text.encode("utf-8", "replace"), _LEVEL)


def unpacked(text: str) -> Any:
    """Return what :func:`packed` packed."""
    return json.loads(unpacked_bytes(text))


def unpacked_bytes(text: str) -> bytes:
    """Return what the page carries packed."""
    return zlib.decompress(base64.b85decode(text.encode().translate(_OF_HTML)))


def _packed(data: bytes, level: int) -> str:
    """Deflate, which browsers undo by themselves, in base 85: a sixteenth less than base 64.

    The three of its characters that mean something in HTML have others in their place; ``page_base.js`` reads it.
    """
    packer = zlib.compressobj(level, memLevel=9)
    return base64.b85encode(packer.compress(data) + packer.flush()).translate(_FOR_HTML).decode()


def csp_hash(script: str) -> str:
    """Return the source by which a content security policy allows exactly this script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
