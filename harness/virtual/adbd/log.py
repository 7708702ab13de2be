"""The phone's command ``log``: ``log [-p LEVEL] [-t TAG] [-b BUFFER] MESSAGE…`` writes to the phone's log.

It is started for every line, so it imports next to nothing.
"""

from __future__ import annotations

import os
import sys

from .logwrite import append

_OPTIONS = ("p", "t", "b")


def main(words: list[str], folder: str) -> int:
    """Run the command on the ring in ``folder``."""
    options = {"p": "i", "t": "log", "b": "main"}
    at = 0
    while at < len(words) and len(words[at]) > 1 and words[at].startswith("-"):
        name, value = words[at][1], words[at][2:]
        at += 1
        if words[at - 1] == "--":
            break
        if name not in _OPTIONS:
            sys.stderr.write(f"log: option -{name} not recognized\n")
            return 1
        if not value:
            if at == len(words):
                sys.stderr.write(f"log: option -{name} requires argument\n")
                return 1
            value = words[at]
            at += 1
        options[name] = value
    text = " ".join(words[at:]) or sys.stdin.read().rstrip("\n")
    caller = os.getppid()
    try:
        append(folder, options["t"], options["p"].upper(), (caller, caller), text, buffer=options["b"])
    except ValueError as error:
        sys.stderr.write(f"log: {error}\n")
        return 1
    return 0


def run() -> None:
    """Run it as the phone's command does."""
    sys.exit(main(sys.argv[1:], "/dev/log"))
