"""The phone's command ``log``: ``log [-p LEVEL] [-t TAG] [-b BUFFER] MESSAGE…`` writes to the phone's log."""

from __future__ import annotations

import getopt
import os
import sys
from pathlib import Path

from .logring import LogRing


def main(words: list[str], ring: LogRing) -> int:
    """Run the command."""
    try:
        pairs, message = getopt.getopt(words, "p:t:b:")
    except getopt.GetoptError as error:
        sys.stderr.write(f"log: {error}\n")
        return 1
    options = {"-p": "i", "-t": "log", "-b": "main", **dict(pairs)}
    text = " ".join(message) or sys.stdin.read().rstrip("\n")
    try:
        ring.append(options["-t"], options["-p"].upper(), os.getppid(), os.getppid(), text, buffer=options["-b"])
    except ValueError as error:
        sys.stderr.write(f"log: {error}\n")
        return 1
    return 0


def run() -> None:
    """Run it as the phone's command does."""
    sys.exit(main(sys.argv[1:], LogRing(Path("/dev/log"))))
