"""A phone's health beyond one run: what failed on it, on which port, and until when it is held out of the fleet.

One small file per phone, by its id, on this computer. People hold and release phones; recovery quarantines those that
keep failing, longer each time, until a run on them succeeds.
"""

from __future__ import annotations

import errno
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from filelock import FileLock
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from harness.core.errors import HostError
from harness.core.ids import iso, utc_now
from harness.core.reasons import Reason
from harness.core.resources import state_dir
from harness.store.runfolder import write_atomically

_log = logging.getLogger(__name__)

QUARANTINE_FIRST = timedelta(minutes=30)
"""How long the first failure of a streak holds a phone; each further one doubles it."""
QUARANTINE_MAX = timedelta(hours=24)
STREAK_MEMORY = timedelta(days=7)
"""A failure that old no longer makes the next quarantine longer."""
MAX_FAILURES = 200
"""So many failures of a phone are kept, the newest."""
LOCK_TIMEOUT_S = 30.0
_MAX_DETAIL = 500
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Hold(_Frozen):
    """A phone is held out of the fleet.

    Attributes:
        phone_id: which phone; ``name`` is what people called it at that time.
        code: why, for programs: a code of :class:`~harness.core.reasons.Reason`, or ``held`` when a person gave none.
        detail: why, for people.
        since, until: from when to when; no ``until``: until somebody releases it.
        by: whether recovery did it (``auto``) or a person.
    """

    phone_id: str
    name: str
    code: str
    detail: str
    since: AwareDatetime
    until: AwareDatetime | None
    by: Literal["auto", "person"]

    def holds_at(self, now: datetime) -> bool:
        """Return whether it is still in force."""
        return self.until is None or now < self.until

    @property
    def text(self) -> str:
        """Who, why and until when, as a clause for people."""
        what = "held by a person" if self.by == "person" else "quarantined"
        until = "until it is released" if self.until is None else f"until {iso(self.until)}"
        return f"{what} {until}: {self.detail or self.code}"


class Failure(_Frozen):
    """Something failed on a phone. ``port`` is its USB path, or the server's address for a phone over TCP."""

    phone_id: str
    name: str
    port: str
    code: str
    detail: str
    at: AwareDatetime


class _History(_Frozen):
    """What one file holds. ``streak`` counts the failures since the last success."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    phone_id: str
    name: str = ""
    streak: Annotated[int, Field(ge=0)] = 0
    hold: Hold | None = None
    failures: tuple[Failure, ...] = ()

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    def failed(self, failure: Failure) -> _History:
        last = self.failures[-1].at if self.failures else failure.at
        streak = self.streak if failure.at - last <= STREAK_MEMORY else 0
        kept = (*self.failures, failure)[-MAX_FAILURES:]
        return self.model_copy(update={"name": failure.name, "streak": streak + 1, "failures": kept})


def quarantine_time(streak: int) -> timedelta:
    """Return how long a phone is held after ``streak`` failures in a row (1 or more)."""
    # Doubled no further than needed: a streak of thousands is no number of minutes.
    return min(QUARANTINE_MAX, QUARANTINE_FIRST * (1 << min(streak - 1, 10)))


class HealthStore:
    """All phones' health on this computer. Any process may use it at any time.

    Methods raise :class:`~harness.core.errors.HostError` when the folder cannot be read or written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        try:
            self._folder = folder if folder is not None else state_dir("health")
        except OSError as error:
            raise _unusable(error.filename or "health", error) from error

    def hold(
        self,
        phone_id: str,
        name: str,
        reason_code: str,
        detail: str,
        until: datetime | None,
        by: Literal["auto", "person"] = "auto",
        *,
        now: datetime | None = None,
    ) -> Hold:
        """Hold a phone from ``now`` on, in place of any hold before."""
        hold = Hold(
            phone_id=phone_id,
            name=name,
            code=reason_code,
            detail=detail[:_MAX_DETAIL],
            since=now or utc_now(),
            until=until,
            by=by,
        )
        with self._changing(phone_id) as history:
            self._write(history.model_copy(update={"name": name, "hold": hold}))
        return hold

    def release(self, phone_id: str) -> Hold | None:
        """End a phone's hold and its streak: somebody has looked at it. Returns the hold that was, in force or not."""
        with self._changing(phone_id) as history:
            if history.hold is not None or history.streak:
                self._write(history.model_copy(update={"hold": None, "streak": 0}))
            return history.hold

    def held(self, phone_id: str, now: datetime) -> Hold | None:
        """Return the hold that is in force; one that is over is none."""
        hold = self._history(phone_id).hold
        return hold if hold is not None and hold.holds_at(now) else None

    def note_failure(self, phone_id: str, name: str, port: str, reason_code: str, detail: str, now: datetime) -> None:
        """Keep in mind that something failed on a phone."""
        with self._changing(phone_id) as history:
            self._write(history.failed(_failure(phone_id, name, port, reason_code, detail, now)))

    def quarantine(self, phone_id: str, name: str, port: str, reason_code: str, detail: str, now: datetime) -> Hold:
        """Note a failure and hold the phone, the longer the more failures came in a row.

        A hold that lasts longer, such as a person's without an end, stays as it is; the one in force is returned.
        """
        with self._changing(phone_id) as history:
            failed = history.failed(_failure(phone_id, name, port, reason_code, detail, now))
            until = now + quarantine_time(failed.streak)
            hold = failed.hold
            if hold is None or (hold.until is not None and hold.until < until):
                hold = Hold(
                    phone_id=phone_id,
                    name=name,
                    code=reason_code,
                    detail=detail[:_MAX_DETAIL],
                    since=now,
                    until=until,
                    by="auto",
                )
            self._write(failed.model_copy(update={"hold": hold}))
            return hold

    def note_success(self, phone_id: str) -> None:
        """A run on the phone went well: its streak of failures is over. A hold stays until it ends or is released."""
        with self._changing(phone_id) as history:
            if history.streak:
                self._write(history.model_copy(update={"streak": 0}))

    def failures(self, phone_id: str) -> tuple[Failure, ...]:
        """Return what failed on a phone, oldest first."""
        return self._history(phone_id).failures

    def failures_of_port(self, port: str) -> tuple[Failure, ...]:
        """Return what failed on phones at this port, oldest first: a bad cable follows the port, not the phone."""
        return tuple(failure for failure in self.all_failures() if failure.port == port)

    def all_failures(self) -> tuple[Failure, ...]:
        """Return what failed on any phone, oldest first."""
        found = [failure for history in self._all() for failure in history.failures]
        return tuple(sorted(found, key=lambda failure: failure.at))

    def names(self) -> dict[str, str]:
        """Return the phones that are known here: id → the name they were last called by."""
        return {history.phone_id: history.name for history in self._all()}

    def _all(self) -> list[_History]:
        files = sorted(self._folder.glob("*.json"))
        return [self._history(file.stem) for file in files if _ID.fullmatch(file.stem)]

    def _history(self, phone_id: str) -> _History:
        """Read without the lock: files are replaced whole. Only a damaged one needs it, to be set aside once."""
        file = self._file(phone_id)
        try:
            history = _parse(file, phone_id)
        except OSError as error:
            raise _unusable(file, error) from error
        if isinstance(history, _History):
            return history
        with self._changing(phone_id) as mended:
            return mended

    def _file(self, phone_id: str) -> Path:
        if _ID.fullmatch(phone_id) is None:
            raise ValueError(f"{phone_id[:80]!r} is no phone's id")
        return self._folder / f"{phone_id}.json"

    @contextmanager
    def _changing(self, phone_id: str) -> Iterator[_History]:
        """Hold the phone's lock and hand over its history."""
        file = self._file(phone_id)
        try:
            with FileLock(file.with_suffix(".lock"), timeout=LOCK_TIMEOUT_S):
                yield _read(file, phone_id)
        except OSError as error:  # the lock's Timeout is one too
            raise _unusable(file, error) from error

    def _write(self, history: _History) -> None:
        write_atomically(self._file(history.phone_id), history.model_dump_json(by_alias=True, indent=1).encode())


def _unusable(what: Path | str, error: OSError) -> HostError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return HostError(
        f"{what} cannot be used ({error.strerror or error})",
        remedy="make room on this computer" if full else "check that folder; MNN_FARM_STATE moves it",
        reason=Reason.HOST_DISK_FULL if full else None,
    )


def _failure(phone_id: str, name: str, port: str, code: str, detail: str, now: datetime) -> Failure:
    return Failure(phone_id=phone_id, name=name, port=port, code=code, detail=detail[:_MAX_DETAIL], at=now)


def _parse(file: Path, phone_id: str) -> _History | str:
    """Return what a file holds, an empty history if there is none, or what is wrong with it."""
    try:
        history = _History.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return _History(phone_id=phone_id)
    except ValidationError as error:
        return f"{error.error_count()} errors, e.g. {error.errors()[0]['msg']}"
    return history if history.phone_id == phone_id else f"it is about {history.phone_id}"


def _read(file: Path, phone_id: str) -> _History:
    """Read under the lock; a damaged file is set aside."""
    history = _parse(file, phone_id)
    if isinstance(history, _History):
        return history
    aside = file.with_suffix(".damaged")
    _log.warning("%s is no phone's health (%s); it was set aside as %s", file, history, aside.name)
    file.replace(aside)
    return _History(phone_id=phone_id)
