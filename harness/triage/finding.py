"""Findings: what is wrong, by which lines, why and what to do; the most likely cause first. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.reasons import Fault
from harness.triage.entry import Evidence
from harness.triage.match import Hit
from harness.triage.rule import Rule, Severity

_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
_PROOFS = ("cause", "symptom", "hint")
_MOST_EVIDENCE = 6
_LONGEST_VALUE = 120
_GROUP = re.compile(r"(?<!\{)\{(\w+)\}")


@dataclass(frozen=True)
class Finding:
    """One finding. ``rule`` is the rule's id, ``code`` the kind of fault; texts are for people."""

    rule: str
    code: str
    severity: Severity
    fault: Fault
    title: str
    evidence: tuple[Evidence, ...]
    cause: str
    advice: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the finding as ``mnn-farm triage --json`` shows it."""
        return {
            "code": self.code,
            "severity": self.severity,
            "fault": self.fault.value,
            "title": self.title,
            "evidence": [{"source": one.source, "line": one.line, "text": one.text} for one in self.evidence],
            "cause": self.cause,
            "advice": list(self.advice),
        }


def findings_of(hits: Sequence[Hit]) -> tuple[Finding, ...]:
    """Return the findings of rules that matched, without those that others explain, most likely cause first."""
    explained = _explained({hit.rule.id: hit.rule for hit in hits})
    kept = sorted((hit for hit in hits if hit.rule.id not in explained), key=_order)
    known = any(hit.rule.severity == "error" and not hit.rule.alone for hit in kept)
    return tuple(_finding(hit) for hit in kept if not (known and hit.rule.alone))


def _explained(rules: Mapping[str, Rule]) -> set[str]:
    """Return the ids that another rule that matched explains. Two that explain each other: the first stays."""
    explained: set[str] = set()
    for rule in sorted(rules.values(), key=_strength):
        if rule.id not in explained:
            explained.update(name for name in rule.suppresses if name in rules)
    return explained


def _strength(rule: Rule) -> tuple[int, int, int]:
    return _SEVERITIES.index(rule.severity), _PROOFS.index(rule.proof), -rule.weight


def _order(hit: Hit) -> tuple[int, int, int, int]:
    return *_strength(hit.rule), min((entry.line for entry in hit.entries), default=0)


def _finding(hit: Hit) -> Finding:
    rule = hit.rule
    said = {**rule.defaults, **{name: _value(value) for name, value in hit.groups.items()}}
    evidence = tuple(dict.fromkeys(one for entry in hit.entries for one in entry.evidence))[:_MOST_EVIDENCE]
    return Finding(
        rule=rule.id,
        code=rule.code,
        severity=rule.severity,
        fault=rule.fault,
        title=_fill(rule.title, said)[:300],
        evidence=evidence,
        cause=_fill(rule.cause, said),
        advice=tuple(_fill(step, said) for step in rule.advice),
    )


def _fill(text: str, said: Mapping[str, str]) -> str:
    return _GROUP.sub(lambda match: said.get(match[1], "…"), text)


def _value(value: str) -> str:
    value = " ".join(value.split())
    return value if len(value) <= _LONGEST_VALUE else value[: _LONGEST_VALUE - 1] + "…"


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity among findings, ``None`` if there are none."""
    return min((finding.severity for finding in findings), key=_SEVERITIES.index, default=None)
