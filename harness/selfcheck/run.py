"""Runs the checks in their order: from cheap to dear, none stopped by another, but all by a phone that is gone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from harness.bench.lease import Keeper, PhoneLease, take
from harness.core.errors import (
    ConfigError,
    FarmError,
    HostError,
    PhoneError,
    PhoneLostError,
    PhoneOfflineError,
    UnauthorizedError,
)
from harness.core.log import phone_logger
from harness.selfcheck import afterwards, alone, basics, cores, slowdown, state, steady, system, truth
from harness.selfcheck.result import Check, Finding, NotCheckableError, Outcome, Result, broken, holds, unknown, untried
from harness.selfcheck.state import put_back
from harness.selfcheck.subject import RETURN_S, Subject

_LOST = (PhoneLostError, PhoneOfflineError, UnauthorizedError)

_FIRST = tuple(check for check in basics.CHECKS if check.always)
_THEN = (
    *(check for check in basics.CHECKS if check not in _FIRST),
    *steady.CHECKS,
    *system.CHECKS,
)
# In the state in which phones are measured.
_MEASURED = (state.BEFORE, *truth.CHECKS, *slowdown.CHECKS, *cores.CHECKS, *alone.CHECKS, state.AFTER)


@contextlib.contextmanager
def _held(subject: Subject) -> Iterator[PhoneLease]:
    """Take the phone, and give it back at the end.

    Raises:
        FarmError: somebody else has it (reason ``busy``).
        PhoneError: it could not be taken.
    """
    lease = take(subject.probe, subject.transport.name, subject.transport.base_dir, "selfcheck")
    try:
        with Keeper(lease):
            yield lease
    finally:
        try:
            lease.give_back()
        except PhoneError as error:
            phone_logger(__name__, subject.transport.name).warning("the lease lapses by itself: %s", error)


def _no_lease(_subject: Subject) -> Finding:
    raise NotCheckableError("no lease was taken, because the probe does not run")


_LEASE = Check(
    "lease-kept",
    "the phone stays ours from beginning to end, broken connections included",
    "two computers that measure one phone measure each other",
    "use one computer at a time with this phone, and send us the parcel",
    _no_lease,
)


def _kept(lease: PhoneLease) -> Check:
    def kept(_subject: Subject) -> Finding:
        answer = lease.probe.show_lease(lease.file)
        if answer.state == "held" and answer.holder is not None and answer.holder.id == lease.id:
            return holds(f"lease {lease.id} is still ours")
        return broken(f"lease {lease.id} is gone, though nobody gave it back: the phone is {answer.state}")

    return replace(_LEASE, test=kept)


def _refused(error: PhoneError) -> Callable[[Subject], Finding]:
    return lambda _subject: broken(str(error))


ALL: tuple[Check, ...] = (*_FIRST, *_THEN, *_MEASURED, _LEASE, *afterwards.CHECKS)


def run_checks(subject: Subject, only: Sequence[str] = ()) -> list[Result]:
    """Check a phone; it is ours meanwhile, and nothing of ours is left on it.

    Args:
        subject: the phone.
        only: names of checks; empty for all. Those on which others stand are always done.

    Raises:
        ConfigError: there is no check of such a name.
        FarmError: somebody else has the phone (reason ``busy``).
    """
    unknown_names = [name for name in only if name not in {check.name for check in ALL}]
    if unknown_names:
        raise ConfigError(
            f"no check is called {unknown_names[0]!r}", remedy=f"choose of {', '.join(check.name for check in ALL)}"
        )
    series = _Series(subject, frozenset(only))
    series.run(_FIRST)
    with contextlib.ExitStack() as stack:
        lease_check = _LEASE
        if series.has_probe():
            try:
                lease_check = _kept(stack.enter_context(_held(subject)))
            except PhoneError as error:  # what else the phone refuses is worth knowing all the same
                lease_check = replace(_LEASE, test=_refused(error))
        try:
            series.run(_THEN)
            if series.wants(_MEASURED):
                series.run(_MEASURED)
            series.run([lease_check])
        finally:
            series.clean_up()
    series.run(afterwards.CHECKS)
    return series.results


class _Series:
    """The results so far, and why nothing more can be told."""

    def __init__(self, subject: Subject, only: frozenset[str]) -> None:
        self.results: list[Result] = []
        self._subject = subject
        self._only = only
        self._over = ""

    def run(self, checks: Sequence[Check]) -> None:
        for check in self._chosen(checks):
            self._subject.say(f"checking {check.name}")
            started = time.monotonic()
            finding = self._find(check)
            self.results.append(Result(check, finding, time.monotonic() - started))
            if check.essential and finding.outcome is not Outcome.PASS:
                self._over = self._over or f"not tried, because {check.name} failed"

    def wants(self, checks: Sequence[Check]) -> bool:
        """Whether any of these was asked for."""
        return not self._only or any(check.name in self._only for check in checks)

    def has_probe(self) -> bool:
        """Whether the probe is on the phone; the reason why not was told by its check."""
        if self._over:
            return False
        try:
            return bool(self._subject.probe.path)
        except (FarmError, NotCheckableError):
            return False

    def clean_up(self) -> None:
        """Put settings back and remove what is ours; what fails is told by the checks of afterwards."""
        if self._over:
            return
        for tidy in (put_back, Subject.clean_up):
            try:
                tidy(self._subject)
            except PhoneError as error:
                phone_logger(__name__, self._subject.transport.name).warning("not left as it was: %s", error)

    def _chosen(self, checks: Sequence[Check]) -> Iterator[Check]:
        return (check for check in checks if not self._only or check.always or check.name in self._only)

    def _find(self, check: Check) -> Finding:
        if self._over:
            return unknown(self._over)
        if self._subject.deadline.passed:
            return untried(f"not tried: {self._subject.deadline.seconds / 60:g} minutes are over")
        try:
            return check.test(self._subject)
        except NotCheckableError as error:
            return unknown(str(error))
        except (HostError, ConfigError) as error:
            return untried(f"this computer cannot try it: {error}")
        except _LOST as error:
            return self._lost(check, error)
        except PhoneError as error:
            return broken(str(error))

    def _lost(self, check: Check, error: PhoneError) -> Finding:
        """Wait for the phone; if it does not come back, nothing more can be told."""
        try:
            self._subject.wait_until_back(error, RETURN_S)
        except PhoneError as still:
            self._over = f"not tried: the phone was lost during {check.name}"
            return broken(f"the phone was lost ({error.message}) and did not come back ({still.message})")
        return broken(f"the phone was lost for a moment ({error.message})")
