"""TOML in, with one sentence for a file that is not TOML; TOML out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli

from harness.core.errors import ConfigError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: it cannot be read or is not TOML; the message names file and place.
    """
    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})", remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})", remedy="save it as UTF-8") from error
    except tomli.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}", remedy="correct that place") from error


def format_toml(value: Mapping[str, Any]) -> str:
    """Return a table of texts, numbers, truths, lists of them, tables and lists of tables as TOML.

    Keys whose value is ``None`` are left out: TOML has no word for it.
    """
    return "\n".join(_table(value, "")).lstrip("\n") + "\n"


def _table(table: Mapping[str, Any], path: str) -> Iterator[str]:
    tables: list[tuple[str, Mapping[str, Any]]] = []
    for key, value in table.items():
        name = key if _BARE_KEY.fullmatch(key) else _text(key)
        if isinstance(value, Mapping):
            tables.append((f"[{path}{name}]", value))
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            tables += [(f"[[{path}{name}]]", one) for one in value]
        elif value is not None:
            yield f"{name} = {_value(value)}"
    for head, inside in tables:
        yield f"\n{head}"
        yield from _table(inside, head.strip("[]") + ".")


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """Return a basic string: JSON's escapes are TOML's too, which in addition wants DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
