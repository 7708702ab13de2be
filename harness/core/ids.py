"""Names for runs and cells. A cell's name depends on what is measured, never on a port, a transport or a time."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any


def utc_now() -> datetime:
    """Return the time now, in UTC, to the second."""
    return datetime.now(timezone.utc).replace(microsecond=0)


def iso(moment: datetime) -> str:
    """Format a UTC time as records carry it: ``2026-01-01T00:00:00Z``."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_run_id() -> str:
    """Return a fresh run id that sorts by time and does not collide between hosts."""
    return f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def test_name(
    phone: str, model: str, backend: str, threads: int, precision: str, prompt: int, generate: int, cell_id: str
) -> str:
    """Return what stands in the brackets of a cell's pytest id, as the interfaces page fixes it.

    A tensor cell generates nothing and has no lengths.
    """
    lengths = f"-p{prompt}-g{generate}" if generate else ""
    return f"{phone}-{model}-{backend}-t{threads}-{precision}{lengths}-{cell_id[:6]}"


def canonical_json(value: Mapping[str, Any]) -> bytes:
    """Return the one JSON form of ``value``: sorted keys, no blanks, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def content_id(value: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical form, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
