"""The process that owns running phones: ``python -m harness.virtual.supervisor``.

One JSON line comes in on stdin, one goes out on stdout (:mod:`harness.virtual.wire`). The end of stdin, or of the
process that asked, takes everything down. It has one thread, because its children are tied to their parent's thread.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

from harness.core.adbprogram import find_adb
from harness.core.deadline import Deadline
from harness.core.errors import FarmError, HostError
from harness.core.provider import Endpoint
from harness.core.reasons import Reason
from harness.virtual import children, tree, wire
from harness.virtual.adbserver import AdbServer
from harness.virtual.phone import Host, VirtualPhone
from harness.virtual.profile import load_profile
from harness.virtual.sandbox import find_sandbox
from harness.virtual.state import PhoneState, claim
from harness.virtual.userland import find_python, find_tools

START_SECONDS = 60.0
CONTENTION_GROUP = "host-cpu"

log = logging.getLogger(__name__)


class Supervisor:
    """Starts phones and their adb server, and takes them down."""

    def __init__(self) -> None:
        self._claimed: list[PhoneState] = []
        self._phones: list[VirtualPhone] = []
        self._server: AdbServer | None = None

    def start(self, profile_names: Sequence[str]) -> list[Endpoint]:
        """Bring up one phone per profile.

        Raises:
            HostError: this computer cannot.
            ConfigError: a profile is wrong.
        """
        deadline = Deadline(START_SECONDS, "starting the virtual phones", "virtual phones")
        self._server = AdbServer(find_adb(carried_first=True))
        profiles = {name: load_profile(name) for name in profile_names}
        host = Host(find_sandbox(), find_python(), find_tools())
        for name in profile_names:
            state = claim(name)
            self._claimed.append(state)
            self._phones.append(VirtualPhone(state, profiles[name], host))
        self._server.wait_ready(deadline)
        return [self._connect(self._server, phone, deadline) for phone in self._phones]

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

    def processes(self) -> dict[str, subprocess.Popen[bytes]]:
        """Return all child processes by what they are."""
        found = {phone.state.name: phone.process for phone in self._phones}
        if self._server is not None:
            found["adb server"] = self._server.process
        return found

    def stop(self) -> None:
        """Take everything down: processes first, then files, then the claims."""
        if not children.end_all(self.processes().values()):
            log.error("a process did not end after SIGKILL")
        for state in self._claimed:
            tree.remove_tree(state.run)
            state.release()
        self._claimed, self._phones, self._server = [], [], None


def _watch(parent: int, processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Return when stdin ends or ``parent`` does. A child that ends before is noted in the log."""
    poller = select.poll()
    poller.register(sys.stdin.fileno(), select.POLLIN)
    stops = {sys.stdin.fileno()}
    try:
        parent_fd = os.pidfd_open(parent)
    except ProcessLookupError:
        return
    stops.add(parent_fd)
    poller.register(parent_fd, select.POLLIN)
    names = {}
    for name, process in processes.items():
        fd = os.pidfd_open(process.pid)  # ours and not waited for, so it is there
        names[fd] = name
        poller.register(fd, select.POLLIN)
    while True:
        for fd, _events in poller.poll():
            if fd not in stops:
                log.error("%s ended by itself", names[fd])
                poller.unregister(fd)
            elif fd == parent_fd or not os.read(fd, 4096):
                return


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(1)


def main() -> int:
    """Serve one request until it is over."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s supervisor %(process)d: %(message)s")
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children.adopt_orphans()
    supervisor = Supervisor()
    try:
        request = wire.decode_request(sys.stdin.buffer.readline())
        answer: list[Endpoint] | FarmError
        try:
            answer = supervisor.start(request.profiles)
        except FarmError as error:
            answer = error
        except OSError as error:
            log.exception("the phones could not be started")
            answer = HostError(
                f"the virtual phones could not be started ({error})",
                remedy="make room on the disk, or set MNN_FARM_CACHE to a folder of yours",
                reason=Reason.HOST_DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else None,
            )
        sys.stdout.buffer.write(wire.encode_answer(answer))
        sys.stdout.buffer.flush()
        if isinstance(answer, FarmError):
            return 1
        _watch(request.parent, supervisor.processes())
        return 0
    finally:
        supervisor.stop()


if __name__ == "__main__":
    sys.exit(main())
