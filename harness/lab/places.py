"""Names that come from another computer: checked before they become paths. What is kept here is kept by content."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from harness.core.errors import ConfigError

_HASH = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,80}")
_LONGEST = 1000


def inside(root: Path, name: str) -> Path:
    """Return the path of ``name`` below ``root``.

    Raises:
        ConfigError: the name leads out of it, or is no plain relative path.
    """
    parts = PurePosixPath(name).parts
    plain = name and len(name) <= _LONGEST and "\\" not in name and name.isprintable()
    if not plain or name.startswith("/") or ".." in parts or "/".join(parts) != name:
        raise ConfigError(f"{name[:80]!r} is no plain path of a file", remedy="nothing was written")
    return root.joinpath(*parts)


def checked_hash(text: str) -> str:
    """Return ``text`` if it is a SHA-256 in hex.

    Raises:
        ConfigError: it is not.
    """
    if not _HASH.fullmatch(text):
        raise ConfigError(f"{text[:80]!r} is no content hash")
    return text


def checked_id(text: str) -> str:
    """Return ``text`` if it can be the id of a run or an order.

    Raises:
        ConfigError: it is not.
    """
    if not _ID.fullmatch(text):
        raise ConfigError(f"{text[:80]!r} is no id of a run or an order")
    return text
