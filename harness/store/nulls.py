"""Which fields of a record are null without saying why."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

# What may be null without a reason: it says "does not apply", not "unknown".
_FREE_NULLS = frozenset(
    {
        "reason", "fault", "planned_phone", "ab", "config.affinity", "config.duration_s",
        "model.stored", "model.source", "metrics.latency_ms", "metrics.ttft_ms.p99", "output.tensors",
    }
)  # fmt: skip
# Sections whose fields are named in ``nulls`` without the section's name.
_SECTIONS = ("phone", "model", "bundle", "adb", "backend", "metrics", "thermal", "output")


def unexplained_nulls(record: BaseModel, nulls: dict[str, str]) -> list[str]:
    """Return the paths of fields that are ``None`` and have no entry in its ``nulls``."""
    found: list[str] = []
    _find_unexplained(record, "", nulls, found)
    return found


def _find_unexplained(part: BaseModel, above: str, nulls: dict[str, str], found: list[str]) -> None:
    values = part.__dict__
    for name, reason_at, inner in _nullable_fields(type(part), above):
        value = values[name]
        if value is None:
            # A field that an older version did not know is not set, which says nothing.
            if reason_at is not None and reason_at not in nulls and name in part.model_fields_set:
                found.append(reason_at)
        elif inner is not None:
            _find_unexplained(value, inner, nulls, found)


@cache
def _nullable_fields(part: type[BaseModel], above: str) -> tuple[tuple[str, str | None, str | None], ...]:
    """Return the fields of a part of a record that may be ``None`` or hold one that is: the others need no look.

    Each with the key of its reason in ``nulls`` (``None``: it needs none) and, if it holds a part, what its fields'
    paths begin with.
    """
    found = []
    for name, field in part.model_fields.items():
        if _may_hold_null(field.annotation):
            path = above + name
            inner = f"{path}." if any(_is_part(each) for each in _alternatives(field.annotation)) else None
            found.append((name, None if path in _FREE_NULLS else _short(path), inner))
    return tuple(found)


def _may_hold_null(annotation: Any) -> bool:
    return any(each is type(None) or _is_part(each) for each in _alternatives(annotation))


def _is_part(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _short(path: str) -> str:
    head, _, rest = path.partition(".")
    return rest if head in _SECTIONS and rest else path
