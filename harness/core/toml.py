"""TOML in, with one sentence for a file that is not TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli

from harness.core.errors import ConfigError


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
