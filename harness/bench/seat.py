"""What an attempt needs of its phone's session: the phone, the run, and all that outlives one cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from harness.bench.account import Account
from harness.bench.bandwidth import Bandwidth
from harness.bench.context import RunContext
from harness.bench.phone import ConnectedPhone
from harness.bench.phone_log import LogReader
from harness.bench.progress import Say
from harness.bench.recovery import Ladder, Recovered
from harness.bench.vitals import Vitals
from harness.payload.folder import PayloadFolder
from harness.payload.probe_events import Event
from harness.phone.battery import Battery
from harness.plan.model import Cool


class Session(Protocol):
    """What an attempt needs of its phone's session."""

    phone: ConnectedPhone
    context: RunContext

    @property
    def say(self) -> Say:
        """Told what happens, for the live display."""
        ...

    @property
    def watch(self) -> Callable[[Event], None]:
        """Told every event of a run."""
        ...

    @property
    def ladder(self) -> Ladder:
        """The phone's ladder."""
        ...

    @property
    def battery(self) -> Battery | None:
        """The battery as it was read last, before the run; ``None`` where there is no Android or no floor to keep."""
        ...

    @property
    def vitals(self) -> Vitals:
        """Battery and thermal status around runs."""
        ...

    @property
    def log(self) -> LogReader | None:
        """The phone's log; ``None`` where there is no Android."""
        ...

    @property
    def cool(self) -> Cool | None:
        """How cool the phone has to be before the next run."""
        ...

    def make_ready(self, account: Account) -> None:
        """Have the phone to ourselves, in the state in which it measures."""
        ...

    def came_back(self, recovered: Recovered, account: Account) -> None:
        """Take note of how the phone came back."""
        ...

    def bandwidth(self, *, again: bool = False) -> Bandwidth:
        """Return how fast the phone's memory can be read."""
        ...

    def bring(self, kind: str, payload: PayloadFolder, label: str) -> str:
        """Bring a payload and return its folder on the phone."""
        ...
