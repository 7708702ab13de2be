"""What provider and supervisor say to each other: one JSON line each way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.core.errors import ConfigError, FarmError, HarnessError, HostError
from harness.core.provider import Endpoint
from harness.core.reasons import Reason

_ERRORS: dict[str, type[FarmError]] = {
    kind.__name__: kind for kind in (ConfigError, HostError, HarnessError)
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """Bring up one phone per profile; ``parent`` is the process whose end is the end of all, unless ``detached``."""

    profiles: tuple[str, ...]
    parent: int
    detached: bool = False


def encode_request(request: Request) -> bytes:
    """Return the provider's line."""
    return json.dumps(asdict(request)).encode() + b"\n"


def decode_request(line: bytes) -> Request:
    """Read the provider's line.

    Raises:
        HarnessError: it is not one.
    """
    try:
        table = json.loads(line)
        return Request(tuple(table["profiles"]), int(table["parent"]), bool(table.get("detached")))
    except (ValueError, KeyError, TypeError) as error:
        raise HarnessError(f"not a request for virtual phones: {line[:200]!r}") from error


def encode_answer(answer: Sequence[Endpoint] | FarmError) -> bytes:
    """Return the supervisor's line."""
    table = (
        encode_error(answer)
        if isinstance(answer, FarmError)
        else {"endpoints": [asdict(endpoint) for endpoint in answer]}
    )
    return json.dumps(table).encode() + b"\n"


def encode_error(error: FarmError) -> dict[str, Any]:
    """Return an error as a table."""
    kind = type(error).__name__
    return {
        "error": kind if kind in _ERRORS else "HostError",
        "message": error.message,
        "remedy": error.remedy,
        "reason": error.reason.code,
    }


def decode_error(table: Mapping[str, Any]) -> FarmError:
    """Return the error of a table.

    Raises:
        KeyError, ValueError, TypeError: it is none.
    """
    return _ERRORS[table["error"]](table["message"], remedy=table["remedy"], reason=Reason.from_code(table["reason"]))


def decode_answer(line: bytes) -> list[Endpoint]:
    """Read the supervisor's line.

    Raises:
        HostError, ConfigError, HarnessError: what the supervisor met with, or a line that is not an answer.
    """
    try:
        table = json.loads(line)
        if "error" not in table:
            return [Endpoint(**endpoint) for endpoint in table["endpoints"]]
        error = decode_error(table)
    except (ValueError, KeyError, TypeError) as problem:
        raise HarnessError(f"not an answer about virtual phones: {line[:200]!r}") from problem
    raise error
