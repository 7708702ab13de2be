"""The phone is ours while it is checked."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.core.errors import PhoneError
from harness.core.log import phone_logger
from harness.core.reasons import Reason
from harness.payload.probe import Probe
from harness.selfcheck.subject import TOTAL_S, Subject

_SPARE_S = 60


@dataclass(frozen=True)
class Hold:
    """A lease that we took."""

    probe: Probe
    file: str
    id: str

    def is_ours(self) -> bool:
        """Whether the phone still says that it is ours."""
        answer = self.probe.show_lease(self.file)
        return answer.state == "held" and answer.holder is not None and answer.holder.id == self.id


@contextmanager
def held(subject: Subject) -> Iterator[Hold]:
    """Take the phone, and give it back at the end.

    Raises:
        PhoneError: somebody else has it (reason ``busy``), or it failed.
    """
    file = f"{subject.transport.base_dir}/lease"
    answer = subject.probe.take_lease(
        file,
        owner=getpass.getuser(),
        host=socket.gethostname(),
        purpose="selfcheck",
        ttl_s=int(TOTAL_S) + _SPARE_S,
    )
    holder = answer.holder
    if answer.state != "taken" or holder is None:
        who = f"{holder.owner} on {holder.host} ({holder.purpose})" if holder is not None else "somebody"
        raise PhoneError(
            subject.transport.name,
            f"{who} has it",
            remedy="wait until that is over" + (f", at most {holder.remaining_ms // 1000} s" if holder else ""),
            reason=Reason.BUSY,
        )
    try:
        yield Hold(subject.probe, file, holder.id)
    finally:
        try:
            subject.probe.end_lease(file, holder.id)
        except PhoneError as error:
            phone_logger(__name__, subject.transport.name).warning("the lease ends by itself: %s", error)
