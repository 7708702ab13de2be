"""The state in which phones are measured: it can be brought about, and taken back."""

from __future__ import annotations

from harness.core.log import phone_logger
from harness.phone.prepare import Change, prepare, restore
from harness.phone.settings import KINDS, Commands, RefusedError, same
from harness.plan.model import Preparation
from harness.selfcheck.result import Check, Finding, NotCheckableError, broken, holds
from harness.selfcheck.subject import Subject

# What plans ask for by default, and animations, so that something harmless is changed on every phone.
_WANTED = Preparation(animations_off=True)
_SECONDS = 90.0


def _taken(subject: Subject) -> Finding:
    if subject.server is None:
        raise NotCheckableError("it is not on adb: the settings of a computer are left alone")
    deadline = subject.deadline.within(_SECONDS, "preparing the phone")
    # Noted before anything is changed: whatever is raised in between, it is put back.
    subject.to_restore = True
    subject.prepared = prepared = prepare(subject.transport, _WANTED, subject.say, deadline)
    changed = ", ".join(map(_shown, prepared.changes)) or "all was so already"
    if prepared.refused:
        refused = "; ".join(f"{what}: {why}" for what, why in prepared.refused.items())
        return broken(f"refused: {refused}; changed: {changed}")
    if prepared.screen != "on":
        return broken(f"the screen should be on and is {prepared.screen or 'not told'}; changed: {changed}")
    return holds(f"changed: {changed}", notes=list(prepared.notes))


def _back(subject: Subject) -> Finding:
    if not subject.to_restore:
        raise NotCheckableError("nothing was changed")
    before = subject.prepared.changes if subject.prepared is not None else ()
    restored = restore(subject.transport, subject.deadline.within(_SECONDS, "putting settings back"))
    subject.to_restore = False
    wrong = [f"{what} is owed: {why}" for what, why in restored.owed.items()]
    wrong += [f"{what}: {why}" for what, why in restored.left_alone.items()]
    wrong += [text for change in before if (text := _difference(subject, change))]
    if wrong:
        return broken("; ".join(wrong))
    return holds(f"{len(before)} changes are back as they were: {', '.join(change.what for change in before)}")


def _difference(subject: Subject, change: Change) -> str:
    """Return how a thing that was put back differs from what it was, ``""`` when it does not."""
    kind, _, key = change.what.partition(" ")
    commands = Commands(subject.transport, subject.deadline)
    try:
        now = KINDS[kind].read(commands, key)
    except RefusedError as error:
        return f"{change.what}: {error}"
    return "" if same(now, change.old) else f"{change.what} was {change.old}, is now {now}"


def put_back(subject: Subject) -> None:
    """Put back what is still owed when the check that should have done it never came to it.

    Raises:
        PhoneError: the phone was lost; what it is owed stands on it, and the next run puts it back.
    """
    if not subject.to_restore:
        return
    restored = restore(subject.transport, subject.deadline.within(_SECONDS, "putting settings back"))
    subject.to_restore = False
    for what, why in restored.owed.items():
        phone_logger(__name__, subject.transport.name).warning("%s is still owed: %s", what, why)


def _shown(change: Change) -> str:
    return f"{change.what} {change.old} → {change.new}"


BEFORE = Check(
    "settings-taken",
    "the phone takes the settings in which it is measured: screen on, awake, no Doze",
    "a phone that parks its big cores or dozes gives the figures of an idle phone",
    "do what the evidence says; on phones of some makers a second switch for USB debugging is needed",
    _taken,
    always=True,
)
AFTER = Check(
    "settings-back",
    "all that was changed on the phone is back as it was",
    "a phone is left as it was found",
    "put the named setting back by hand, and send us the parcel",
    _back,
    always=True,
)
