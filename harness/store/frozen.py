"""What all parts of a record have in common: immutable, finite, Unicode, and silent about what was not told."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer, model_validator

# Null means "does not apply" in these, and readers may count on finding them.
_WRITTEN_AS_NULL = frozenset({"planned_phone", "affinity"})


_Part = TypeVar("_Part", bound="Frozen")


class Frozen(BaseModel):
    """A part of a record."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @model_validator(mode="after")
    def _is_unicode(self: _Part) -> _Part:
        """Texts come from phones and models; half a character (a lone surrogate) cannot be written as UTF-8.

        One look at a whole part, not one at each of its fields: reports read a hundred thousand records.
        """
        values = self.__dict__
        for name, value in values.items():
            kind = type(value)
            if (kind is str and not value.isascii()) or (kind is dict and not _is_plain(value)):
                values[name] = _mended(value)
        return self

    @model_serializer(mode="wrap")
    def _leave_out_what_was_not_told(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A field that nobody gave is not written as ``null``, which would need its reason."""
        written: dict[str, Any] = handler(self)
        return {key: value for key, value in written.items() if value is not None or self._is_told(key)}

    def _is_told(self, key: str) -> bool:
        return key in self.model_fields_set or key in _WRITTEN_AS_NULL


def _is_plain(values: dict[Any, Any]) -> bool:
    """Whether all values are texts in which there is nothing to mend, as usual."""
    for value in values.values():  # noqa: SIM110 -- a third of the time of all() over a generator
        if type(value) is not str or not value.isascii():
            return False
    return True


def _mended(value: Any) -> Any:
    """Return a text without halves of characters, or a mapping without them in its values."""
    if type(value) is str:
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {key: _mended(inner) for key, inner in value.items()}
    return value
