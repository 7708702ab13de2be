"""The step between two phones, where ``--max-parallel`` makes a worker take one after the other.

pytest-xdist's workers hold a test back until they know the next one. So a phone's tests are followed by this step,
which is no test: the phone's last test need not wait for the decision which phone is next, and that decision falls when
a place is really free. In the step the worker leaves its phone as it was found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

_NAME = "leave-the-phone"
LEAVE_ID = f"::{_NAME}"


class LeavePhone(pytest.Item):
    """The step as pytest's loop knows it. It is never reported and no outcome counts it."""

    def __init__(self, *, leave: Callable[[], None], **of_pytest: Any) -> None:
        super().__init__(**of_pytest)
        self._leave = leave

    @classmethod
    def of(cls, session: pytest.Session, leave: Callable[[], None]) -> LeavePhone:
        """Make the step of a worker; ``leave`` leaves whatever phone it has."""
        made: LeavePhone = cls.from_parent(session, name=_NAME, leave=leave)
        return made

    def runtest(self) -> None:
        """Leave the phone."""
        self._leave()
