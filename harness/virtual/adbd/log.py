"""The phone's command ``log``: ``log [-p LEVEL] [-t TAG] [-b BUFFER] MESSAGE…`` writes to the phone's log."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .logring import LogRing


def main(words: list[str], ring: LogRing) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="log", allow_abbrev=False)
    parser.add_argument("-p", default="i", dest="level")
    parser.add_argument("-t", default="log", dest="tag")
    parser.add_argument("-b", default="main", dest="buffer")
    parser.add_argument("message", nargs="*")
    options = parser.parse_args(words)
    text = " ".join(options.message) or sys.stdin.read().rstrip("\n")
    try:
        ring.append(options.tag, options.level.upper(), os.getppid(), os.getppid(), text, buffer=options.buffer)
    except ValueError as error:
        sys.stderr.write(f"log: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], LogRing(Path("/dev/log"))))
