"""What was noted beside the figures: the findings of a record that do not decide its verdict. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.report.text import distinct, one_line
from harness.store.schema import CellRecord, Finding

# Beside the verdict's own findings, which are errors: what matters more comes first.
_SEVERITIES = ("warning", "info")


@dataclass(frozen=True)
class Remark:
    """All that was noted under one code on one phone: each different sentence, and in how many cells it was noted."""

    severity: str
    code: str
    said: tuple[tuple[str, int], ...]


def deciding(record: CellRecord) -> tuple[Finding, ...]:
    """Return the findings that made the verdict, the decisive one first; an ``ok`` record has none."""
    return tuple(finding for finding in record.findings if finding.severity == "error")


def causes(record: CellRecord) -> tuple[Finding, ...]:
    """Return the causes that the logs of a cell show, likeliest first."""
    return tuple(finding for finding in record.findings if finding.cause)


def known_cause(record: CellRecord) -> Finding | None:
    """Return the likeliest cause that the logs of a cell show, ``None`` where they show none that is known."""
    return next(iter(causes(record)), None)


def beside(record: CellRecord) -> tuple[Finding, ...]:
    """Return what was noted besides, warnings first."""
    noted = [finding for finding in record.findings if not finding.cause]
    return tuple(finding for severity in _SEVERITIES for finding in noted if finding.severity == severity)


def warning_codes(record: CellRecord) -> list[str]:
    """Return the codes of a record's warnings, without repeats."""
    return distinct(finding.code for finding in record.findings if finding.severity == "warning")


def remarks(records: Iterable[CellRecord]) -> tuple[Remark, ...]:
    """Return what was noted in these cells, each sentence once: warnings first, else in the order of first mention."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for record in records:
        for severity, code, title in dict.fromkeys((f.severity, f.code, one_line(f.title)) for f in beside(record)):
            counts.setdefault((severity, code), Counter())[title] += 1
    found = [Remark(severity, code, tuple(said.items())) for (severity, code), said in counts.items()]
    return tuple(sorted(found, key=lambda remark: _SEVERITIES.index(remark.severity)))


def as_lines(findings: Sequence[Finding]) -> list[str]:
    """Return findings for plain text, e.g. ``warning recovered: the phone was lost and came back``."""
    return [f"{finding.severity} {finding.code}: {one_line(finding.title)}" for finding in findings]
