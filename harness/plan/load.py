"""Plans from files: found by name, read, overridden from the command line, checked; one sentence for what is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError

from harness.core.errors import ConfigError
from harness.core.resources import profile_file, profile_names
from harness.core.toml import read_toml
from harness.plan.model import Plan


def plan_names() -> list[str]:
    """Return the names of the plans that come with the product."""
    return profile_names("plans")


def find_plan(name_or_file: str) -> Path:
    """Return the file of a plan given by name or by path.

    Raises:
        ConfigError: neither exists.
    """
    path = profile_file("plans", name_or_file)
    if path is not None:
        return path
    raise ConfigError(
        f"--plan {name_or_file}: there is no such plan or file", remedy=f"plans are {', '.join(plan_names())}"
    )


def load_plan(path: Path, overrides: Mapping[str, tuple[str, Any]] | None = None) -> Plan:
    """Read and check a plan.

    ``overrides`` maps a field to (where it was said, value), e.g. ``{"threads": ("--threads", [1, 2])}``.

    Raises:
        ConfigError: one sentence with place, key and allowed values.
    """
    return make_plan(read_toml(path), str(path), overrides)


def make_plan(data: dict[str, Any], where: str, overrides: Mapping[str, tuple[str, Any]] | None = None) -> Plan:
    """Check the plan in ``data``, which came from ``where``; ``overrides`` as for :func:`load_plan`.

    Raises:
        ConfigError: one sentence with place, key and allowed values.
    """
    check_against(Plan, data, where)
    data = dict(data)
    for field, (said, value) in (overrides or {}).items():
        data[field] = value
        check_against(Plan, data, said)
    return Plan.model_validate(data)


def check_against(model: type[BaseModel], data: Mapping[str, Any], where: str) -> None:
    """Check ``data`` against a typed model.

    Raises:
        ConfigError: the first thing that is wrong, as one sentence.
    """
    try:
        model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_sentence(model, error)}") from error


def _sentence(model: type[BaseModel], error: ValidationError) -> str:
    # A typo makes two errors, an unknown key and a missing one; the first explains the second.
    first = min(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
    kind = first["type"]
    whole = [str(part) for part in first["loc"]]
    # pydantic puts the names of a union's members among the keys; what is unknown is always a key.
    path = (
        whole if kind == "extra_forbidden" else [p for p in whole if p not in ("bool", "int", "str") and "[" not in p]
    )
    key = ".".join(path)
    more = f" (and {_places(error) - 1} more)" if _places(error) > 1 else ""
    if kind == "extra_forbidden":
        known = _keys_at(model, path[:-1])
        near = difflib.get_close_matches(path[-1], known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"unknown key {key!r}; {hint}keys here are {', '.join(known)}{more}"
    if kind == "missing":
        return f"the key {key!r} is missing{more}"
    if kind == "too_short":
        return f"{key} needs at least one value{more}"
    said = first["msg"].removeprefix("Value error, ")
    said = said[0].lower() + said[1:]
    got = "" if isinstance(first["input"], (dict, list)) and first["input"] else f", not {first['input']!r}"
    return f"{key}: {said}{got}{more}" if key else f"{said}{more}"


def _places(error: ValidationError) -> int:
    """Count the keys that are wrong; a union reports one key once per alternative."""
    return len({tuple(p for p in e["loc"] if not isinstance(p, str) or "[" not in p)[:2] for e in error.errors()})


def _keys_at(model: type[BaseModel], path: list[str]) -> list[str]:
    for part in path:
        info = model.model_fields.get(part)
        inner = [] if info is None else [info.annotation, *getattr(info.annotation, "__args__", ())]
        # get_origin: Python 3.10 takes list[X] for a class
        nested = [c for c in inner if get_origin(c) is None and isinstance(c, type) and issubclass(c, BaseModel)]
        if nested:
            model = nested[0]
    return [info.alias or name for name, info in model.model_fields.items()]
