"""What the shell's `time` tells: a program that waited far longer than it computed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.triage.entry import Entry, Evidence

# bash and toybox write the name before the time, mksh and zsh behind it.
_TIME = re.compile(
    r"(?:(?P<first>real|user|sys)\s{1,8})?(?P<minutes>\d{1,4})m ?(?P<seconds>\d{1,2}\.\d{1,3})s"
    r"(?:\s{1,4}(?P<last>real|user|sys)(?:tem)?\b)?"
)
_LEAST_S = 10.0
_WAITED = 0.4


def walltime_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield that a program waited most of its time, as a line for rules."""
    told: dict[str, float] = {}
    evidence: list[Evidence] = []
    for entry in entries:
        for match in _TIME.finditer(entry.text[:200]):
            name = match["first"] or match["last"]
            if name is None:
                continue
            if name == "real":
                told, evidence = {}, []
            told[name] = 60 * float(match["minutes"]) + float(match["seconds"])
            evidence += entry.evidence
        if len(told) == 3:
            cpu = told["user"] + told["sys"]
            if told["real"] >= _LEAST_S and cpu < _WAITED * told["real"]:
                text = f"walltime: waited real={told['real']:.1f} cpu={cpu:.1f}"
                yield Entry(text, "table", tuple(dict.fromkeys(evidence)))
            told = {}
