"""The phone's log as processes outside the phone write it: heat, memory, crashes and faults leave their lines here.

The folder is :attr:`harness.virtual.state.PhoneState.logs`; inside the phone it is ``/dev/log``, where ``logcat``
reads it.
"""

from __future__ import annotations

from harness.virtual.adbd.logring import LogRing
from harness.virtual.adbd.logwrite import BUFFERS, format_line
from harness.virtual.state import PhoneState

__all__ = ["BUFFERS", "LogRing", "format_line", "phone_log"]


def phone_log(state: PhoneState) -> LogRing:
    """Return the log of a running phone: ``phone_log(state).append("lowmemorykiller", "I", 479, 479, "Kill …")``."""
    return LogRing(state.logs)
