"""What the phone's own log says of a run that did not end well. The parser is pure."""

from __future__ import annotations

import re

from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.log import phone_logger
from harness.core.transport import Transport

READ_S = 20.0
_LAST_LINES = "3000"
# lmkd's (Android 9 and later), the old kernel driver's, and the kernel's own words for a process killed for memory.
_KILLED = re.compile(
    rb"lowmemorykiller: Kill(?:ing)? '[^']*' \((?P<lmkd>\d+)\)"
    rb"|[Oo]ut of memory: Kill(?:ed)? process (?P<kernel>\d+)\b"
)


def read_phone_log(transport: Transport) -> bytes:
    """Return the end of the phone's log; empty when it gives none, which costs a run its explanation only.

    Old phones do not know ``-b all``; they are asked for their default buffers.
    """
    deadline = Deadline(READ_S, "reading the phone's log", transport.name)
    try:
        for buffers in (["-b", "all"], []):
            result = transport.shell(["logcat", "-d", *buffers, "-t", _LAST_LINES], deadline=deadline)
            if result.exit_code == 0:
                return result.stdout
    except PhoneError as error:
        phone_logger(__name__, transport.name).warning("the phone's log could not be read: %s", error)
    return b""


def memory_kill(log: bytes, pid: int) -> str | None:
    """Return the line in which the phone says that it killed process ``pid`` for want of memory."""
    for line in reversed(log.splitlines()):
        match = _KILLED.search(line)
        if match is not None and int(match["lmkd"] or match["kernel"]) == pid:
            return line.decode("utf-8", "replace").strip()
    return None
