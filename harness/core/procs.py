"""Processes that must not outlive the one that started them."""

from __future__ import annotations

import ctypes
import signal
import sys

# <linux/prctl.h>
_PR_SET_PDEATHSIG = 1
# Loaded here, so that a child between fork and exec need not.
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends, also by kill -9. Linux only."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
