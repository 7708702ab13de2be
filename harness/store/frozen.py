"""What all parts of a record have in common: immutable, finite, Unicode, and silent about what was not told."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, field_validator, model_serializer

# Null means "does not apply" in these, and readers may count on finding them.
_WRITTEN_AS_NULL = frozenset({"planned_phone", "affinity"})


class Frozen(BaseModel):
    """A part of a record."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    @field_validator("*", mode="after")
    @classmethod
    def _is_unicode(cls, value: Any) -> Any:
        """Texts come from phones and models; half a character (a lone surrogate) cannot be written as UTF-8."""
        if type(value) is str:
            if value.isascii():
                return value
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(value, dict):
            return {key: cls._is_unicode(inner) for key, inner in value.items()}
        return value

    @model_serializer(mode="wrap")
    def _leave_out_what_was_not_told(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A field that nobody gave is not written as ``null``, which would need its reason."""
        written: dict[str, Any] = handler(self)
        return {key: value for key, value in written.items() if value is not None or self._is_told(key)}

    def _is_told(self, key: str) -> bool:
        return key in self.model_fields_set or key in _WRITTEN_AS_NULL
