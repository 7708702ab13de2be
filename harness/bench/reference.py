"""The reference of a cell: found in the cache, else computed once, whatever else runs here.

It is wanted to judge a phone's text; that it cannot be had costs only that judgement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from filelock import FileLock, Timeout

from harness.bench.context import RunContext
from harness.bench.match import Reference
from harness.bench.reference_run import Compute, compute, maker
from harness.bench.reference_store import Entry, Maker, Query, ReferenceStore, as_entry, what_changed
from harness.core.deadline import Deadline
from harness.core.errors import FarmError
from harness.core.ids import iso, utc_now
from harness.core.resources import cache_dir
from harness.payload.models import ModelFolder
from harness.plan.matrix import PlannedCell, questions_of
from harness.runners.farm_runner import PROMPT_TEXT
from harness.store.schema import Finding

# With waiting for others who compute.
REFERENCE_S = 900.0
# Keys of the engine that can change what is said; the others only change where memory lies and which cores compute.
TEXT_KEYS = ("attention_mode", "chunk", "dynamic_option")


@dataclass(frozen=True)
class Found:
    """The reference of a cell, or ``why`` there is none; ``findings`` are for the cell's record."""

    reference: Reference | None = None
    why: str = ""
    findings: tuple[Finding, ...] = ()


NOT_COMPARED = Found(why="the run did not end well: there is no text to compare")


def find_reference(
    context: RunContext,
    cell: PlannedCell,
    say: Callable[[str], None],
    compute: Compute = compute,
    prompt_text: str = PROMPT_TEXT,
) -> Found:
    """Return the reference of a cell. The caller holds the turn of the phone's contention group.

    ``prompt_text`` is what the timed prompt is cut from.

    Never raises for what is wrong with this computer or the model: that is in ``why`` and ``findings``.
    """
    policy, _ = context.plan.reference.policy_for(cell.backend, cell.precision)
    if policy == "off":
        return Found(why="the plan compares with no reference")
    if context.bundle.manifest.engine != "MNN":
        return Found(why=f"the {context.bundle.manifest.engine} engine runs no model: there is no reference")
    try:
        desk = _Desk(
            context.run_id, query_of(context, cell, prompt_text), maker(), ReferenceStore(cache_dir("references"))
        )
        entry = desk.entry(context.models[cell.model], say, compute)
    except FarmError as error:
        return _none(str(error))
    except OSError as error:  # no room for the cache, no process to be had
        return _none(f"this computer could not compute it ({error.strerror or error})")
    if entry.reference is None:
        return _none(entry.failed)
    return Found(entry.reference, findings=tuple(desk.changed(entry)))


def query_of(context: RunContext, cell: PlannedCell, prompt_text: str = PROMPT_TEXT) -> Query:
    """Return everything that the text of a cell depends on."""
    return Query(
        model_hash=context.models[cell.model].folder.hash,
        prompt_text_hash=hashlib.sha256(prompt_text.encode()).hexdigest(),
        precision=cell.precision,
        memory=cell.memory,
        prompt_tokens=cell.prompt_tokens,
        generate_tokens=cell.generate_tokens,
        context_tokens=cell.context_tokens,
        engine=tuple((key, value) for key, value in sorted(cell.engine.items()) if key in TEXT_KEYS),
        questions=tuple((ask.question, ask.max_tokens) for ask in questions_of(cell, context.plan)),
        prompt_text=prompt_text,
    )


@dataclass(frozen=True)
class _Desk:
    """Where one reference is looked up and made."""

    run_id: str
    query: Query
    made_by: Maker
    store: ReferenceStore

    def kept(self) -> Entry | None:
        """Return what is kept; that it could not be computed counts for the run which tried."""
        entry = self.store.read(self.query, self.made_by)
        return entry if entry is not None and (entry.reference is not None or entry.run_id == self.run_id) else None

    def entry(self, model: ModelFolder, say: Callable[[str], None], compute: Compute) -> Entry:
        """Return what is kept, else compute it, one at a time on this computer.

        Raises:
            FarmError: others computed for too long.
        """
        entry = self.kept()
        if entry is not None:
            return entry
        deadline = Deadline(REFERENCE_S, "computing the reference", "this computer")
        lock = FileLock(self.store.lock_file)
        try:
            lock.acquire(timeout=deadline.remaining_s())
        except Timeout:
            raise FarmError(f"others computed references for {REFERENCE_S:g} s") from None
        try:
            return self.kept() or self._make(model, say, compute, deadline)
        finally:
            lock.release()

    def _make(self, model: ModelFolder, say: Callable[[str], None], compute: Compute, deadline: Deadline) -> Entry:
        say(f"computing the reference of {model.name} on this computer")
        try:
            result: Reference | str = compute(self.query, model, deadline)
        except FarmError as error:
            result = str(error)
        entry = as_entry(self.run_id, iso(utc_now()), self.made_by, result)
        self.store.write(self.query, self.made_by, entry)
        return entry

    def changed(self, entry: Entry) -> Iterator[Finding]:
        """Yield how the text differs from what the engine version before said, in the run that finds out."""
        before = self.store.before(self.query, self.made_by)
        if entry.run_id != self.run_id or entry.reference is None or before is None or before.reference is None:
            return
        versions = f"engine {self.made_by.engine_version} on this computer, and {before.engine_version} before it"
        how = what_changed(before.reference, entry.reference, self.query.questions)
        if how:
            title = f"{versions}, do not say the same: {how}"
            yield Finding(code="engine_changed_text", severity="warning", title=title[:500])
        else:
            title = f"{versions}, say the same in {1 + len(self.query.questions)} texts"
            yield Finding(code="engine_changed_text", severity="info", title=title)


def _none(why: str) -> Found:
    title = f"the text could not be compared: {why}"
    return Found(
        why=f"there is no reference: {why}",
        findings=(Finding(code="no_reference", severity="warning", title=title[:500]),),
    )
