"""Brings a phone to the state the plan asks for, and back. What is changed is owed, and written down before.

:func:`prepare` may be called again at any time, after a reboot for instance: it does what is missing and keeps the
first old values. :func:`restore` needs nothing but the phone: what it owes stands in its own ledger.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.deadline import Deadline
from harness.core.ids import iso, utc_now
from harness.core.log import phone_logger
from harness.core.transport import Transport
from harness.phone.ledger import Entry, LedgerFile, LedgerRefusedError, amended
from harness.phone.power import parse_foreground, parse_power
from harness.phone.settings import (
    ANIMATIONS,
    KINDS,
    SCREEN_TIMEOUT,
    STAY_ON,
    Commands,
    RefusedError,
    UnreadableError,
    change,
    foreground_argv,
    known,
    over_the_air,
    same,
)
from harness.plan.model import Preparation

# AC, USB and wireless: the bits of BatteryManager.
_ANY_CHARGER = "7"
# A day: longer than a cell may take on a phone that is on no charger.
_NO_TIMEOUT_MS = "86400000"


@dataclass(frozen=True)
class Change:
    """One thing that was changed; ``None`` means that there was no value."""

    what: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class Prepared:
    """What a preparation came to.

    ``refused`` maps what the phone did not do to why; ``foreground`` is the component in front as the phone was found,
    ``screen`` is ``on`` or ``off`` as it is now. Both are ``None`` when the phone does not tell.
    """

    changes: tuple[Change, ...]
    refused: Mapping[str, str]
    foreground: str | None
    screen: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Restored:
    """What a restoration came to: put back, left alone because somebody changed it meanwhile, still owed and why."""

    back: tuple[Change, ...]
    left_alone: Mapping[str, str]
    owed: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Wish:
    kind: str
    key: str
    value: str

    @property
    def name(self) -> str:
        return f"{self.kind} {self.key}"


def _wishes(preparation: Preparation) -> tuple[_Wish, ...]:
    """Return what a plan asks of its phones, in the order in which it is done. What it leaves alone is not there."""
    asked: list[_Wish] = []
    # A screen that is to be off needs nothing that keeps it on.
    if preparation.stay_awake and preparation.screen != "off":
        asked += [_Wish("setting", STAY_ON, _ANY_CHARGER), _Wish("setting", SCREEN_TIMEOUT, _NO_TIMEOUT_MS)]
    if preparation.doze_off:
        asked += [_Wish("doze", "deep", "0"), _Wish("doze", "light", "0")]
    if preparation.animations_off:
        asked += [_Wish("setting", key, "0") for key in ANIMATIONS]
    if preparation.airplane:
        asked.append(_Wish("airplane", "mode", "1"))
    if preparation.screen != "keep":
        asked.append(_Wish("screen", "state", preparation.screen))
    return tuple(asked)


def prepare(transport: Transport, preparation: Preparation, say: Callable[[str], None], deadline: Deadline) -> Prepared:
    """Bring a phone to the state that ``preparation`` asks for.

    What an earlier one changed and this does not ask for is put back first.

    Raises:
        PhoneError: the phone was lost. What it owes by then stands in its ledger.
    """
    say("preparing")
    return _Preparing(transport, deadline).run(_wishes(preparation))


class _Preparing:
    """One preparation, step by step."""

    def __init__(self, transport: Transport, deadline: Deadline) -> None:
        self._phone = Commands(transport, deadline)
        self._serial = transport.serial
        self._file = LedgerFile(transport, deadline)
        self._log = phone_logger(__name__, transport.name)
        self._entries: tuple[Entry, ...] = ()
        self._changes: list[Change] = []
        self._refused: dict[str, str] = {}
        self._notes: list[str] = []

    def run(self, asked: Sequence[_Wish]) -> Prepared:
        front = parse_foreground(self._phone.run(*foreground_argv()).stdout)
        if front is None:
            self._notes.append("the phone does not tell which app is in front")
        held, note = self._file.read()
        self._notes += [note] if note else []
        wanted = {wish.name for wish in asked}
        others = tuple(entry for entry in held if entry.name not in wanted)
        done = _put_back(self._phone, others)
        self._entries = tuple(entry for entry in held if entry not in others or entry in done.kept)
        self._notes += [f"{one.what} is back at {_shown(one.new)}: an earlier run had changed it" for one in done.back]
        self._notes += [f"{what} is left alone: {why}" for what, why in done.left_alone.items()]
        self._notes += [f"{what} is still owed by an earlier run: {why}" for what, why in done.owed.items()]
        self._change(self._missing(asked), held)
        power = parse_power(self._phone.run("dumpsys", "power").stdout)
        if power.powered is False:
            why = "the screen is off" if power.screen == "off" else "a lock screen goes dark by itself"
            self._notes.append(f"no charger is on and {why}: the phone may sleep during a run")
        return Prepared(tuple(self._changes), self._refused, front, power.screen, tuple(self._notes))

    def _missing(self, asked: Sequence[_Wish]) -> list[tuple[_Wish, str | None]]:
        """Return what is to be changed, with the value now; :attr:`_entries` then owes the values to go back to."""
        missing = []
        for wish in asked:
            if wish.kind == "airplane" and over_the_air(self._serial):
                self._refused[wish.name] = "adb reaches this phone through its own network, which this would end"
                continue
            try:
                now = KINDS[wish.kind].read(self._phone, wish.key)
            except RefusedError as error:
                self._refused[wish.name] = str(error)
                continue
            if not same(now, wish.value):
                self._owe(wish, now)
                missing.append((wish, now))
        return missing

    def _owe(self, wish: _Wish, now: str | None) -> None:
        held = next((one for one in self._entries if one.name == wish.name), None)
        if held is None:
            self._entries += (Entry(wish.kind, wish.key, now, wish.value, platform.node(), iso(utc_now())),)
            return
        if same(now, held.old) or same(now, held.new):
            self._entries = amended(self._entries, wish.name, new=wish.value)
        else:
            self._notes.append(f"somebody changed {wish.name} to {_shown(now)}: that is what it will go back to")
            self._entries = amended(self._entries, wish.name, old=now, new=wish.value)

    def _change(self, missing: Sequence[tuple[_Wish, str | None]], held: tuple[Entry, ...]) -> None:
        """Write the ledger, change, and strike out what the phone refused."""
        if not self._written(held):
            self._refused.update({wish.name: self._notes[-1] for wish, _ in missing})
            return
        owed = self._entries
        for wish, before in missing:
            try:
                now = change(KINDS[wish.kind], self._phone, wish.key, wish.value, before)
            except RefusedError as error:
                self._refused[wish.name] = str(error)
                if not isinstance(error, UnreadableError):
                    self._strike(wish, held)
                continue
            if not same(now, wish.value):
                self._notes.append(f"{wish.name}: {wish.value} was asked, the phone took {now}")
                self._entries = amended(self._entries, wish.name, new=now)
            self._changes.append(Change(wish.name, before, now))
            self._log.info("%s: %s -> %s", wish.name, before, now)
        self._written(owed)

    def _strike(self, wish: _Wish, held: tuple[Entry, ...]) -> None:
        """Owe for a change that did not happen what was owed before, mostly nothing."""
        before = tuple(entry for entry in held if entry.name == wish.name)
        place = next(index for index, entry in enumerate(self._entries) if entry.name == wish.name)
        self._entries = self._entries[:place] + before + self._entries[place + 1 :]

    def _written(self, before: tuple[Entry, ...]) -> bool:
        if self._entries == before:
            return True
        try:
            self._file.write(self._entries)
        except LedgerRefusedError as error:
            self._notes.append(f"what is changed could not be noted on the phone: {error}")
            return False
        return True


@dataclass
class _PutBack:
    back: list[Change] = field(default_factory=list)
    left_alone: dict[str, str] = field(default_factory=dict)
    owed: dict[str, str] = field(default_factory=dict)
    kept: list[Entry] = field(default_factory=list)


def _put_back(phone: Commands, entries: Sequence[Entry]) -> _PutBack:
    """Put values back in reverse order; one that cannot be put back does not keep the others."""
    done = _PutBack()
    for entry in reversed(entries):
        try:
            _put_one_back(phone, entry, done)
        except RefusedError as error:
            done.owed[entry.name] = str(error)
            done.kept.insert(0, entry)
    return done


def _put_one_back(phone: Commands, entry: Entry, done: _PutBack) -> None:
    if not known(entry.kind, entry.key):
        raise RefusedError("this version does not know how; the one that changed it does")
    kind = KINDS[entry.kind]
    now = kind.read(phone, entry.key)
    if same(now, entry.old):
        return
    if not same(now, entry.new):
        done.left_alone[entry.name] = f"somebody changed it to {_shown(now)} meanwhile (it was {_shown(entry.old)})"
        return
    after = change(kind, phone, entry.key, entry.old, now)
    if not same(after, entry.old):
        raise RefusedError(f"{_shown(entry.old)} was asked, the phone took {_shown(after)}")
    done.back.append(Change(entry.name, now, after))


def _shown(value: str | None) -> str:
    return "unset" if value is None else value


def restore(transport: Transport, deadline: Deadline) -> Restored:
    """Put back all that a phone is owed, by whatever run on whatever computer.

    Raises:
        PhoneError: the phone was lost. What it is still owed stands in its ledger.
    """
    file = LedgerFile(transport, deadline)
    entries, note = file.read()
    notes = [note] if note else []
    done = _put_back(Commands(transport, deadline), entries)
    if tuple(done.kept) != entries:
        try:
            file.write(done.kept)
        except LedgerRefusedError as error:
            notes.append(str(error))
    log = phone_logger(__name__, transport.name)
    for change_ in done.back:
        log.info("%s: back from %s to %s", change_.what, change_.old, change_.new)
    for what, why in done.owed.items():
        log.warning("%s is still owed: %s", what, why)
    return Restored(tuple(done.back), done.left_alone, done.owed, tuple(notes))
