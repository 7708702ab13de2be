"""Start of adbd: as process 1 of the sandbox it becomes init, runs adbd as its child and starts it again if it ends."""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
import time
from pathlib import Path

from . import storage

_SOON_S = 1.0
_MAX_EARLY_ENDS = 3


def _name_process(name: str) -> None:
    Path("/proc/self/comm").write_text(name)


def _be_init(options: argparse.Namespace) -> int:
    """Reap orphans, report crashes and keep adbd running. The end of init is the end of the phone."""
    _name_process("init")
    with contextlib.suppress(OSError):  # then files there may be run, which is all the difference
        storage.make_noexec()
    early_ends = 0
    while True:
        child, started = os.fork(), time.monotonic()
        if child == 0:
            os.setsid()
            _serve(options)
            os._exit(0)
        from . import debuggerd  # here, while adbd starts

        debuggerd.watch(child)
        status = debuggerd.wait_for(child)
        early_ends = early_ends + 1 if time.monotonic() - started < _SOON_S else 0
        if early_ends == _MAX_EARLY_ENDS:
            return os.waitstatus_to_exitcode(status) or 1


def _serve(options: argparse.Namespace) -> None:
    import asyncio  # here, so that init stays small

    from .control import ControlWire
    from .server import Server

    _name_process("adbd")
    listener, wire = (socket.socket(fileno=os.dup(fd)) for fd in (options.listen_fd, options.control_fd))
    # What it starts must not inherit the originals.
    os.set_inheritable(options.listen_fd, False)
    os.set_inheritable(options.control_fd, False)

    async def serve() -> None:
        await Server(listener, ControlWire(wire), options.banner.encode()).serve()

    asyncio.run(serve())


def main() -> int:
    """Serve the inherited listening socket until the phone is taken down."""
    parser = argparse.ArgumentParser(prog="adbd")
    parser.add_argument("--listen-fd", type=int, required=True)
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--banner", required=True)
    options = parser.parse_args()
    os.umask(0)
    if os.getpid() == 1:
        return _be_init(options)
    _serve(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
