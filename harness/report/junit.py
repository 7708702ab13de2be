"""``junit.xml`` from the run folder, for CI systems. pytest's own file lacks cells that an earlier, resumed run did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as Xml

from harness.core.reasons import Outcome
from harness.report.advice import ADVICE
from harness.report.besides import as_lines, beside, deciding, known_cause
from harness.report.cells import by_phone, phone_labels, pytest_id
from harness.report.text import one_line, visible
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder, write_atomically
from harness.store.schema import CellRecord

_TAGS = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}


def write_junit(run_dir: Path, out: Path | None = None) -> Path:
    """Write ``junit.xml`` (or ``out``): a suite per phone, a case per cell, its last attempt.

    Raises:
        ConfigError: ``run_dir`` is not a run folder.
    """
    folder = RunFolder.open(run_dir)
    target = out or run_dir / "junit.xml"
    write_atomically(target, junit_xml(folder.read_info(), folder.latest()))
    return target


def junit_xml(info: RunInfo, records: Sequence[CellRecord]) -> bytes:
    """Return the document. Characters that XML forbids are shown as escapes."""
    root = Xml.Element("testsuites", {"name": f"mnn-farm {one_line(info.run_id)}", **_totals(records)})
    labels = phone_labels(records)
    for phone_id, group in by_phone(records).items():
        root.append(_suite(labels[phone_id], group))
    Xml.indent(root)
    document: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _suite(name: str, group: Sequence[CellRecord]) -> Xml.Element:
    started = min(record.started for record in group)
    suite = Xml.Element("testsuite", {"name": name, "timestamp": started, **_totals(group)})
    for record in group:
        suite.append(_case(name, record))
    return suite


def _totals(records: Sequence[CellRecord]) -> dict[str, str]:
    outcomes = [record.why.outcome for record in records if record.why]
    return {
        "tests": str(len(records)),
        "failures": str(outcomes.count(Outcome.FAILED)),
        "errors": str(outcomes.count(Outcome.ERROR)),
        "skipped": str(outcomes.count(Outcome.SKIPPED)),
        "time": f"{sum(record.elapsed_s for record in records):.3f}",
    }


def _case(phone: str, record: CellRecord) -> Xml.Element:
    case = Xml.Element("testcase", classname=phone, name=pytest_id(record), time=f"{record.elapsed_s:.3f}")
    properties = Xml.SubElement(case, "properties")
    for key, value in (
        ("cell_id", record.cell_id),
        ("verdict", record.verdict.value),
        ("reason", record.reason or ""),
        ("fault", record.fault.value if record.fault else ""),
    ):
        Xml.SubElement(properties, "property", name=key, value=one_line(value))
    why = record.why
    if why is not None:
        message = f"{why.code}: {record.detail or why.says}"
        outcome = Xml.SubElement(case, _TAGS[why.outcome], type=f"{why.verdict.value}.{why.fault.value}")
        outcome.set("message", one_line(message))
        known = known_cause(record)
        advice = ADVICE[why] if known is None else f"{known.title}. {known.cause} {known.advice}"
        evidence = [f"{finding.title}\n{finding.evidence}".strip() for finding in deciding(record)]
        outcome.text = visible("\n".join([f"{why.says}. {advice}", record.detail, *evidence]).strip())
    besides = beside(record)
    if besides:
        Xml.SubElement(case, "system-out").text = visible("\n".join(as_lines(besides)))
    return case
