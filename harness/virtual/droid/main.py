"""Finds the command by the name it was called by."""

from __future__ import annotations

import importlib
import os
import sys

# Name of the command -> module that answers it.
MODULES = {
    "am": "activity",
    "cmd": "cmd",
    "df": "disk",
    "dumpsys": "dumpsys",
    "input": "keys",
    "pm": "activity",
    "settings": "settings",
    "svc": "svc",
    "wm": "window",
}


def main(name: str, arguments: list[str]) -> None:
    """Run command ``name`` and end the process with its exit code."""
    module = importlib.import_module(f".{MODULES[name]}", __package__)
    code = 1
    try:
        code = module.run(name, arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        code = 141
    except OSError as error:
        sys.stderr.write(f"{name}: {error}\n")
    os._exit(code)  # nothing is left to tidy, and it is quicker
