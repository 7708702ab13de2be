"""What pytest says of a record: outcome, message and, for the whole run, exit status."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from _pytest._code.code import ReprExceptionInfo, ReprFileLocation, ReprTracebackNative

from harness.core.reasons import ExitStatus, Fault, Outcome, Reason
from harness.plan.known import SLOWER
from harness.plan.model import Plan
from harness.plan.tiers import TierRules, load_tier_rules
from harness.report.advice import ADVICE, LOST_ADVICE, SLOWER_ADVICE, WHOSE
from harness.report.besides import as_lines, beside, deciding, known_cause
from harness.report.slo import Missed
from harness.report.text import one_line
from harness.store.schema import CellRecord

# What a failure is raised with does not know in which run it is; whoever reports it does.
_RUN = "mnn-farm crash RUN "


class CellFailure(Exception):  # noqa: N818  an outcome, not an error of ours
    """Raised to make pytest fail a cell: one line, and the text below it."""

    def __init__(self, short: str, text: str) -> None:
        super().__init__(short)
        self.short = short
        self.text = text


def as_report(failure: CellFailure, item: pytest.Item, run_dir: Path | None = None) -> ReprExceptionInfo:
    """Return the failure in the form that pytest prints, sends between processes and puts into its short summary."""
    path, line, _ = item.location
    place = ReprFileLocation(path, (line or 0) + 1, failure.short)
    return ReprExceptionInfo(ReprTracebackNative([f"{in_run(failure.text, run_dir)}\n"]), place)


def in_run(text: str, run_dir: Path | None) -> str:
    """Return a failure's text with the command that packs its bug report as it is to be pasted."""
    return text if run_dir is None else text.replace(_RUN, f"mnn-farm crash {shlex.quote(str(run_dir))} ")


def outcome_of(record: CellRecord) -> Outcome:
    """Return the pytest outcome of a record."""
    why = record.why
    return Outcome.PASSED if why is None else why.outcome


def short_message(record: CellRecord) -> str:
    """Return one line: reason, whose fault, which phone, what was seen."""
    fault = record.fault.value if record.fault is not None else "none"
    return f"{record.reason} ({fault}) on {record.phone.name}: {record.detail}"


def long_message(record: CellRecord) -> str:
    """Return what a person needs to act: whose fault, evidence, what to do, where the raw output lies."""
    why = record.why
    if why is None:
        return "ok"
    lines = [short_message(record), f"  what:     {why.says}"]
    if record.fault is not None:
        lines.append(f"  whose:    {WHOSE[record.fault]}")
    phone = record.phone
    lines.append(f"  phone:    {phone.name} ({phone.model or 'unknown model'}, serial {phone.serial})")
    evidence = next((finding.evidence for finding in deciding(record) if finding.evidence), "")
    if evidence:
        lines.append("  evidence: " + evidence.replace("\n", "\n            "))
    lines += [f"  besides:  {line}" for line in as_lines(beside(record)) if line.startswith("warning")]
    known = known_cause(record)
    if known is not None:
        lines += [f"  found:    {one_line(known.title)}", f"  why:      {one_line(known.cause)}"]
    lines.append(f"  do:       {ADVICE[why] if known is None else one_line(known.advice)}")
    if record.raw is not None:
        lines.append(f"  raw:      {record.raw} in the run folder")
        if record.fault is Fault.PRODUCT:
            lines.append(f"  bundle:   {_RUN}{record.cell_id[:12]} --redact")
    return "\n".join(lines)


def promised(plan: Plan) -> TierRules | None:
    """Return the rules by which cells of a plan are held to their tier's SLO, ``None`` where the plan wants none."""
    return load_tier_rules() if plan.slo.judge else None


def slo_failure(record: CellRecord, missed: Sequence[Missed]) -> CellFailure:
    """Return the failure of an ``ok`` cell that misses its tier's SLO."""
    phone = record.phone
    short = f"slo: {phone.name} is in tier {phone.tier}: {'; '.join(each.words for each in missed)}"
    lines = [short, "  what:     the cell is ok, but the tier of its phone promises more (profiles/tiers.toml)"]
    lines += [f"  missed:   {each.name}: {each.words}" for each in missed]
    lines.append(f"  phone:    {phone.name} ({phone.model or 'unknown model'}, serial {phone.serial})")
    lines.append("  do:       take another model or configuration for this tier (tiers.json says which)")
    if record.raw is not None:
        lines.append(f"  raw:      {record.raw} in the run folder")
    return CellFailure(short, "\n".join(lines))


def tell_outcome(
    report: pytest.TestReport, record: CellRecord, missed: Sequence[Missed] = (), run_dir: Path | None = None
) -> None:
    """Make a report that a dead worker could not send say what its cell's record says."""
    passed = outcome_of(record) is Outcome.PASSED
    report.when = "call" if passed else "setup"
    report.outcome = "passed" if passed and not missed else "failed"
    told = slo_failure(record, missed).text if missed else long_message(record)
    report.longrepr = None if passed and not missed else in_run(told, run_dir)


def regression_failure(record: CellRecord, reason: str, words: str) -> CellFailure:
    """Return the failure of a cell that was ok in the run compared with: unsupported now, or slower."""
    slow = reason == SLOWER
    phone = record.phone
    short = f"{reason} (product) on {phone.name}: {words}" + ("" if slow else f"; {record.detail}")
    lines = [
        short,
        f"  what:     {'the cell is ok and slower than it was' if slow else 'the cell cannot run any more'}",
        f"  whose:    {WHOSE[Fault.PRODUCT]}",
        f"  phone:    {phone.name} ({phone.model or 'unknown model'}, serial {phone.serial})",
        f"  do:       {SLOWER_ADVICE if slow else LOST_ADVICE}",
    ]
    lines += [f"  raw:      {record.raw} in the run folder"] if record.raw is not None else []
    return CellFailure(short, "\n".join(lines))


def exit_status(
    records: Iterable[CellRecord],
    pytest_status: int,
    beside: Iterable[Reason] = (),
    *,
    regressed: bool = False,
    slo_missed: bool = False,
) -> int:
    """Return the run's exit status; only pytest's 0 and 1 are refined, its own meanings (2 to 5) stay.

    ``beside``: what went wrong and could not be recorded. ``regressed``: a cell is red beside the run compared with.
    ``slo_missed``: an ``ok`` cell misses its tier's SLO.
    """
    if pytest_status not in (ExitStatus.OK, ExitStatus.FAILED):
        return pytest_status
    statuses = {why.exit_status for record in records if (why := record.why) is not None}
    statuses |= {why.exit_status for why in beside}
    if regressed or slo_missed or ExitStatus.FAILED in statuses:
        return int(ExitStatus.FAILED)
    if ExitStatus.INFRA in statuses:
        return int(ExitStatus.INFRA)
    return pytest_status
