"""Start of adbd: as process 1 of the sandbox it becomes init and runs adbd as its child."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path


def _name_process(name: str) -> None:
    Path("/proc/self/comm").write_text(name)


def _be_init(child: int) -> int:
    """Reap orphans until adbd ends; its end is the end of the phone."""
    _name_process("init")
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status)


def _serve(listener: socket.socket, banner: str) -> None:
    import asyncio  # here, so that init stays small

    from .server import serve

    _name_process("adbd")
    asyncio.run(serve(listener, banner.encode()))


def main() -> int:
    """Serve the inherited listening socket until the phone is taken down."""
    parser = argparse.ArgumentParser(prog="adbd")
    parser.add_argument("--listen-fd", type=int, required=True)
    parser.add_argument("--banner", required=True)
    options = parser.parse_args()
    os.umask(0)
    if os.getpid() == 1:
        child = os.fork()
        if child:
            os.close(options.listen_fd)
            return _be_init(child)
        os.setsid()
    _serve(socket.socket(fileno=options.listen_fd), options.banner)
    return 0


if __name__ == "__main__":
    sys.exit(main())
