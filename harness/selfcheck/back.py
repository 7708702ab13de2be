"""Waiting for a phone that adb has lost."""

from __future__ import annotations

import time

from harness.adb.recover import plug_in
from harness.core.errors import PhoneLostError, PhoneOfflineError
from harness.selfcheck.subject import Subject

# Between two tries. adb's own wait-for cannot be used alone: a phone over TCP comes back only when it is asked for.
_PAUSE_S = 0.1


def wait_until_back(subject: Subject, seconds: float) -> None:
    """Wait until a command runs on the phone again; a phone over TCP is plugged in anew, as often as needed.

    Raises:
        DeadlineError: it did not come back in time.
        PhoneError: it did, and does not let us in.
    """
    deadline = subject.deadline.within(seconds, "the return of the phone")
    while True:
        try:
            subject.transport.shell(["true"], deadline=deadline)
            return
        except (PhoneLostError, PhoneOfflineError):
            deadline.remaining_s()  # raises when the time is over
        try:
            if subject.server is not None:
                plug_in(subject.server, subject.serial, deadline)
        except PhoneLostError:
            time.sleep(min(_PAUSE_S, deadline.remaining_s()))
