"""Words and figures for people. Everything from a phone or a model passes through :func:`visible` on its way out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

# Joiners that scripts and emoji need; they neither reorder nor hide anything.
_HARMLESS = frozenset("\u200c\u200d")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))

_BACKENDS = {"cpu": "CPU", "opencl": "OpenCL", "vulkan": "Vulkan", "opengl": "OpenGL", "nnapi": "NNAPI", "cuda": "CUDA"}

# Narrow no-break space: groups digits without looking like a decimal sign anywhere.
_GROUP = "\u202f"


def visible(text: str, *, keep: str = "\n\t") -> str:
    """Return ``text`` with control, format and unassigned characters as escapes (``\\x1b``, ``\\u202e``).

    ``keep`` names control characters that stay as they are. A carriage return before a line feed is dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(c if c in keep or not _is_hidden(c) else _escape(c) for c in text)


def one_line(text: str) -> str:
    """Return ``text`` on one line: runs of blanks and line ends become one space, the rest as :func:`visible`."""
    return visible(" ".join(text.split()), keep="")


def inert(text: str) -> str:
    """Return ``text`` for a CSV field, visible, and quoted where a spreadsheet would run it as a formula."""
    shown = visible(text, keep="\n")
    return f"'{shown}" if shown.lstrip().startswith(("=", "+", "-", "@")) else shown


def cut(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of ``text``, ending in an ellipsis where some are missing."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _is_hidden(character: str) -> bool:
    return character not in _HARMLESS and unicodedata.category(character) in _HIDDEN


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plural(count: int, word: str, many: str | None = None) -> str:
    """Return e.g. ``1 phone``, ``2 phones``."""
    return f"{count} {word if count == 1 else many or word + 's'}"


def distinct(values: Iterable[str]) -> list[str]:
    """Return ``values`` without repeats, in order of first appearance."""
    return list(dict.fromkeys(values))


def backend_name(code: str) -> str:
    """Return the name people know a backend by, e.g. ``OpenCL`` for ``opencl``."""
    return _BACKENDS.get(code.lower(), one_line(code))


def number(value: float) -> str:
    """Return ``value`` with three significant digits and no exponent: ``8.42``, ``84.2``, ``842``, ``8 421``."""
    size = abs(value)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    return f"{value:,.{digits}f}".replace(",", _GROUP)


def mebibytes(value: float) -> str:
    """Return a size in bytes as ``187 MiB`` or ``5.62 GiB``."""
    mib = value / 2**20
    return f"{number(mib)} MiB" if mib < 1024 else f"{number(mib / 1024)} GiB"


def celsius(value: float) -> str:
    """Return a temperature to a tenth of a degree, without its unit."""
    return f"{value:.1f}"


def percent(ratio: float) -> str:
    """Return a ratio as a percentage: ``0.034`` as ``3.4 %``."""
    return f"{ratio * 100:.1f} %"


def listing(words: Sequence[str]) -> str:
    """Join words with commas and a final *and*."""
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1] if words else ""
