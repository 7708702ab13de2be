"""Typed access to the JSON that the probe prints. It comes from a phone: every field is checked.

Strings of the probe are bytes in disguise: every control byte and every byte above 0x7e is written as ``\\u00XX``, so
that nothing is lost.
"""

from __future__ import annotations

import json
import math
from typing import Any

Numbers = tuple[int | None, ...]


class Fields:
    """Typed access to one JSON object; every complaint names the field."""

    def __init__(self, data: Any, what: str) -> None:
        if not isinstance(data, dict):
            raise ValueError(f"{what} is no JSON object")
        self._data: dict[str, Any] = data
        self._what = what

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def _get(self, key: str) -> Any:
        if key not in self._data:
            raise ValueError(f"{self._what} has no {key!r}")
        return self._data[key]

    def _wrong(self, key: str, wanted: str) -> ValueError:
        return ValueError(f"{key!r} of {self._what} is not {wanted}: {str(self._data[key])[:80]!r}")

    def maybe_integer(self, key: str) -> int | None:
        """Return a whole number or ``None``."""
        value = self._get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise self._wrong(key, "a whole number")
        return value

    def integer(self, key: str) -> int:
        """Return a whole number."""
        value = self.maybe_integer(key)
        if value is None:
            raise self._wrong(key, "a whole number")
        return value

    def raw(self, key: str) -> bytes:
        """Return the bytes of a string."""
        value = self._get(key)
        try:
            return str.encode(value, "latin-1")
        except (TypeError, UnicodeEncodeError) as error:
            raise self._wrong(key, "a string of bytes") from error

    def text(self, key: str) -> str:
        """Return a string decoded as UTF-8, odd bytes as surrogate escapes."""
        return _text(self.raw(key))

    def maybe_text(self, key: str) -> str | None:
        """Return a string or ``None``."""
        return None if self._get(key) is None else self.text(key)

    def array(self, key: str) -> list[Any]:
        """Return a list of anything."""
        value = self._get(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return value

    def numbers(self, key: str) -> Numbers:
        """Return a list of whole numbers and ``None``."""
        values = self.array(key)
        if not all(value is None or type(value) is int for value in values):
            raise self._wrong(key, "a list of whole numbers and nulls")
        return tuple(values)

    def whole(self, key: str) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        values = self.array(key)
        if not all(type(value) is int for value in values):
            raise self._wrong(key, "a list of whole numbers")
        return tuple(values)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        return tuple(Fields({key: value}, self._what).text(key) for value in self.array(key))

    def objects(self, key: str) -> list[Fields]:
        """Return a list of objects."""
        return [Fields(value, f"an entry of {key!r} of {self._what}") for value in self.array(key)]

    def is_null(self, key: str) -> bool:
        """Return whether the field is there and ``null``."""
        return self._get(key) is None

    def fraction(self, key: str) -> float:
        """Return a finite number."""
        value = self._get(key)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
            raise self._wrong(key, "a number")
        return float(value)

    def inner(self, key: str) -> Fields:
        """Return an object."""
        return Fields(self._get(key), f"{key!r} of {self._what}")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def load_line(line: bytes, what: str) -> Fields:
    """Read one line that holds one JSON object.

    Raises:
        ValueError: it does not.
    """
    try:
        return Fields(json.loads(line), what)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} cannot be read ({error}): {line[:80]!r}") from error
