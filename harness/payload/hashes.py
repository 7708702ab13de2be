"""Hashes of local files, computed once: by the controller, not again by each phone's worker or the next run.

A hash is taken from the cache only while path, device, inode, size, mtime and ctime are what they were when it was
computed: the kernel changes the ctime at every write, and nobody can set it. A file that was changed within the last
two seconds is not remembered, because another change might fall on the same tick of the clock. Each file has an entry
of its own, written whole and renamed into place, so that any number of processes may use the cache at once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from harness.core.resources import cache_dir

_READ_BYTES = 4 * 1024 * 1024
# Smaller files are hashed faster than an entry is found.
SMALLEST_BYTES = 1024 * 1024
_FRESH_NS = 2_000_000_000
_MOST_ENTRIES = 4096
_log = logging.getLogger(__name__)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex, by reading it.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def cached_sha256_of(path: Path, *, now_ns: Callable[[], int] = time.time_ns) -> str:
    """Return the SHA-256 of a file, in hex; it is read only if it was changed since it was last read.

    Raises:
        OSError: it cannot be read.
    """
    before = path.stat()
    if before.st_size < SMALLEST_BYTES:
        return sha256_of(path)
    entry = _entry_of(path)
    key = _key(path, before)
    known = _read(entry, key)
    if known is not None:
        return known
    begun_ns = now_ns()
    digest = sha256_of(path)
    settled = begun_ns - max(before.st_mtime_ns, before.st_ctime_ns) > _FRESH_NS
    if settled and _key(path, path.stat()) == key:
        _write(entry, {**key, "sha256": digest})
    return digest


def _key(path: Path, found: os.stat_result) -> dict[str, str | int]:
    return {
        "path": str(path.resolve()),
        "device": found.st_dev,
        "inode": found.st_ino,
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "ctime_ns": found.st_ctime_ns,
    }


def _entry_of(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    return cache_dir("hashes") / f"{name}.json"


def _read(entry: Path, key: dict[str, str | int]) -> str | None:
    try:
        data = json.loads(entry.read_bytes())
        digest = data.pop("sha256")
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return digest if data == key and isinstance(digest, str) and len(digest) == 64 else None


def _write(entry: Path, data: dict[str, str | int]) -> None:
    """Keep an entry. A cache that cannot be written only costs time."""
    temporary = entry.with_name(f".{entry.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_text(json.dumps(data))
        temporary.replace(entry)
        _forget_oldest(entry.parent)
    except OSError as error:
        _log.info("the hash of %s is not remembered: %s", data["path"], error)


def _forget_oldest(folder: Path) -> None:
    entries = list(folder.glob("*.json"))
    if len(entries) <= _MOST_ENTRIES:
        return
    for old in sorted(entries, key=lambda entry: entry.stat().st_mtime)[: _MOST_ENTRIES // 2]:
        old.unlink(missing_ok=True)
