"""The process that owns running phones: ``python -m harness.virtual.supervisor``.

One JSON line comes in on stdin, one goes out on stdout (:mod:`harness.virtual.wire`). After that it takes orders about
each phone on a socket in the phone's folder (:mod:`harness.virtual.orders`). The end of stdin, or of the process that
asked, takes everything down; a detached one ends with its last phone. It has one thread, because its children are tied
to their parent's thread.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

from harness.core.adbprogram import find_adb
from harness.core.deadline import Deadline
from harness.core.errors import FarmError, HostError
from harness.core.provider import Endpoint
from harness.core.reasons import Reason
from harness.virtual import children, tree, wire
from harness.virtual.adbserver import AdbServer
from harness.virtual.behaviour import BehaviourLoop
from harness.virtual.injector import Injector
from harness.virtual.orders import OrderSocket
from harness.virtual.phone import Host, VirtualPhone, compile_commands
from harness.virtual.profile import load_profile
from harness.virtual.sandbox import find_sandbox
from harness.virtual.state import PhoneState, claim
from harness.virtual.unit import Unit
from harness.virtual.userland import find_python, find_tools

START_SECONDS = 60.0
CONTENTION_GROUP = "host-cpu"

log = logging.getLogger(__name__)


class Timers:
    """Functions to be called later, by whoever waits in between."""

    def __init__(self) -> None:
        self._planned: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def later(self, seconds: float, function: Callable[[], None]) -> None:
        """Plan a call."""
        heapq.heappush(self._planned, (time.monotonic() + seconds, next(self._count), function))

    def wait_ms(self) -> int | None:
        """Return how long nothing is to be done; ``None`` for ever."""
        if not self._planned:
            return None
        return max(0, int((self._planned[0][0] - time.monotonic()) * 1000) + 1)

    def run_due(self) -> None:
        """Call what is due."""
        while self._planned and self._planned[0][0] <= time.monotonic():
            heapq.heappop(self._planned)[2]()


class Supervisor:
    """Starts phones and their adb server, serves orders, and takes all down."""

    def __init__(self) -> None:
        self._units: list[Unit] = []
        self._claimed: list[PhoneState] = []
        self._server: AdbServer | None = None
        self._timers = Timers()
        self._life = BehaviourLoop()

    def start(self, request: wire.Request) -> list[Endpoint]:
        """Bring up one phone per profile.

        Raises:
            HostError: this computer cannot.
            ConfigError: a profile is wrong.
        """
        deadline = Deadline(START_SECONDS, "starting the virtual phones", "virtual phones")
        server = self._server = AdbServer(find_adb(carried_first=True))
        profiles = {name: load_profile(name) for name in request.profiles}
        host = Host(find_sandbox(), find_python(), find_tools())
        compile_commands()
        if any(profile.auth for profile in profiles.values()):
            server.wait_ready(deadline)  # only then it has a key that the phones can be told
        for name in request.profiles:
            state = claim(name)
            self._claimed.append(state)
            phone = VirtualPhone(state, profiles[name], host, self._life)
            injector = Injector(phone, server, self._timers.later)
            self._units.append(Unit(phone, injector, OrderSocket(state.control), server.port, request.detached))
            phone.boot("cold", injector.condition())
        server.wait_ready(deadline)
        return [self._connect(server, unit.phone, deadline) for unit in self._units]

    def _connect(self, server: AdbServer, phone: VirtualPhone, deadline: Deadline) -> Endpoint:
        try:
            server.connect(phone.serial, deadline)
        except FarmError as error:
            error.remedy = f"its log {phone.state.log} ends with: {phone.log_tail()}"
            raise
        return Endpoint(
            name=phone.state.name,
            provider="virtual",
            adb_host="127.0.0.1",
            adb_port=server.port,
            transport_serial=phone.serial,
            contention_group=CONTENTION_GROUP,
        )

    def serve(self, stops: set[int], *, detached: bool) -> None:
        """Serve orders and events until one of ``stops`` is readable at its end or, detached, no phone is left."""
        server_fd = os.pidfd_open(self._server.process.pid) if self._server is not None else -1
        while self._units or not detached:
            poller = select.poll()
            handlers = self._handlers()
            if server_fd >= 0:
                handlers[server_fd] = lambda: log.error("the adb server ended by itself")
            for fd in (*stops, *handlers):
                poller.register(fd, select.POLLIN)
            waits = [wait for wait in (self._timers.wait_ms(), self._step_life()) if wait is not None]
            ready = [fd for fd, _events in poller.poll(min(waits) if waits else None)]
            if any(_at_end(fd) for fd in stops.intersection(ready)):
                return
            for fd in ready:
                if fd in handlers:
                    _guarded(handlers[fd])
            if server_fd in ready:
                os.close(server_fd)
                server_fd = -1
            _guarded(self._timers.run_due)
            for unit in [unit for unit in self._units if unit.is_over]:
                self._take_down(unit)

    def _step_life(self) -> int | None:
        """Let the phones live, and return in how many milliseconds they want to be called again."""
        wait_s = self._life.step(time.monotonic())
        return None if wait_s is None else int(wait_s * 1000) + 1

    def _handlers(self) -> dict[int, Callable[[], None]]:
        found: dict[int, Callable[[], None]] = {}
        for unit in self._units:
            found |= unit.handlers()
        return found

    def _take_down(self, unit: Unit) -> None:
        self._units.remove(unit)
        unit.close()
        self._claimed.remove(unit.phone.home)
        unit.phone.home.release()

    def stop(self) -> None:
        """Take everything down: processes first, then files, then the claims."""
        processes = [unit.phone.process for unit in self._units if unit.phone.process is not None]
        if self._server is not None:
            processes.append(self._server.process)
        if not children.end_all(processes):
            log.error("a process did not end after SIGKILL")
        self._life.stop()
        for unit in self._units:
            unit.orders.close()
        for state in self._claimed:
            tree.remove_tree(state.run)
            state.control.unlink(missing_ok=True)
            state.release()
        self._claimed, self._units, self._server = [], [], None


def _guarded(function: Callable[[], None]) -> None:
    """Call it; what it cannot do is noted and costs nothing else."""
    try:
        function()
    except (FarmError, OSError) as error:
        log.error("%s", error)


def _at_end(fd: int) -> bool:
    """Whether ``fd``, which is readable, is a pidfd or a pipe at its end."""
    try:
        return not os.read(fd, 4096)
    except OSError as error:
        return error.errno == errno.EINVAL  # a pidfd


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(1)


def _start(supervisor: Supervisor, request: wire.Request) -> list[Endpoint] | FarmError:
    try:
        return supervisor.start(request)
    except FarmError as error:
        return error
    except OSError as error:
        log.exception("the phones could not be started")
        return HostError(
            f"the virtual phones could not be started ({error})",
            remedy="make room on the disk, or set MNN_FARM_CACHE to a folder of yours",
            reason=Reason.HOST_DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else None,
        )


def main() -> int:
    """Serve one request until it is over."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s supervisor %(process)d: %(message)s")
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children.adopt_orphans()
    supervisor = Supervisor()
    try:
        request = wire.decode_request(sys.stdin.buffer.readline())
        answer = _start(supervisor, request)
        sys.stdout.buffer.write(wire.encode_answer(answer))
        sys.stdout.buffer.flush()
        if isinstance(answer, FarmError):
            return 1
        stops: set[int] = set()
        if not request.detached:
            try:
                stops = {sys.stdin.fileno(), os.pidfd_open(request.parent)}
            except ProcessLookupError:
                return 0
        supervisor.serve(stops, detached=request.detached)
        return 0
    finally:
        supervisor.stop()


if __name__ == "__main__":
    sys.exit(main())
