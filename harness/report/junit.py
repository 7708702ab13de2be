"""``junit.xml`` from the run folder, for CI systems. pytest's own file lacks cells that an earlier, resumed run did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as Xml

from harness.core.reasons import Fault, Outcome
from harness.report.advice import ADVICE, LOST_ADVICE, SLOWER_ADVICE
from harness.report.besides import as_lines, beside, deciding, known_cause
from harness.report.cells import by_phone, phone_labels, pytest_id
from harness.report.news_file import NewsFile, Told, read_news
from harness.report.news_words import outcome_of_told
from harness.report.text import one_line, visible
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder, write_atomically
from harness.store.schema import CellRecord

_TAGS = {Outcome.FAILED: "failure", Outcome.ERROR: "error", Outcome.SKIPPED: "skipped"}


def write_junit(run_dir: Path | RunFolder, out: Path | None = None) -> Path:
    """Write ``junit.xml`` (or ``out``): a suite per phone, a case per cell, its last attempt.

    Raises:
        ConfigError: ``run_dir`` is not a run folder.
    """
    folder = RunFolder.open(run_dir)
    target = out or folder.path / "junit.xml"
    write_atomically(target, junit_xml(folder.read_info(), folder.latest(), read_news(folder.path)))
    return target


def junit_xml(info: RunInfo, records: Sequence[CellRecord], news: NewsFile | None = None) -> bytes:
    """Return the document; ``news`` are those told of these records. Characters that XML forbids are shown as escapes.

    A cell that is red by comparison is a failure; state (``new``, ``known``, …), ticket and what was before are
    properties of its case.
    """
    items = {item.cell_id: item for item in news.items} if news is not None else {}
    root = Xml.Element("testsuites", {"name": f"mnn-farm {one_line(info.run_id)}", **_totals(records, items)})
    labels = phone_labels(records)
    for phone_id, group in by_phone(records).items():
        root.append(_suite(labels[phone_id], group, items))
    Xml.indent(root)
    document: bytes = Xml.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _suite(name: str, group: Sequence[CellRecord], items: Mapping[str, Told]) -> Xml.Element:
    started = min(record.started for record in group)
    suite = Xml.Element("testsuite", {"name": name, "timestamp": started, **_totals(group, items)})
    for record in group:
        suite.append(_case(name, record, items.get(record.cell_id)))
    return suite


def _totals(records: Sequence[CellRecord], items: Mapping[str, Told]) -> dict[str, str]:
    outcomes = [outcome_of_told(record, items.get(record.cell_id)) for record in records]
    return {
        "tests": str(len(records)),
        "failures": str(outcomes.count(Outcome.FAILED)),
        "errors": str(outcomes.count(Outcome.ERROR)),
        "skipped": str(outcomes.count(Outcome.SKIPPED)),
        "time": f"{sum(record.elapsed_s for record in records):.3f}",
    }


def _case(phone: str, record: CellRecord, item: Told | None) -> Xml.Element:
    case = Xml.Element("testcase", classname=phone, name=pytest_id(record), time=f"{record.elapsed_s:.3f}")
    properties = Xml.SubElement(case, "properties")
    for key, value in (
        ("cell_id", record.cell_id),
        ("verdict", record.verdict.value),
        ("reason", record.reason or ""),
        ("fault", record.fault.value if record.fault else ""),
        *_news_properties(item),
    ):
        Xml.SubElement(properties, "property", name=key, value=one_line(value))
    why = record.why
    ending = outcome_of_told(record, item)
    if item is not None and item.red and (why is None or why.outcome is not ending):
        outcome = Xml.SubElement(case, _TAGS[ending], type=f"regression.{Fault.PRODUCT.value}")
        outcome.set("message", f"{item.reason}: {item.words}")
        outcome.text = visible("\n".join([SLOWER_ADVICE if why is None else LOST_ADVICE, record.detail]).strip())
    elif why is not None:
        message = f"{why.code}: {record.detail or why.says}"
        outcome = Xml.SubElement(case, _TAGS[why.outcome], type=f"{why.verdict.value}.{why.fault.value}")
        outcome.set("message", one_line(message))
        known = known_cause(record)
        advice = ADVICE[why] if known is None else f"{known.title}. {known.cause} {known.advice}"
        evidence = [f"{finding.title}\n{finding.evidence}".strip() for finding in deciding(record)]
        outcome.text = visible("\n".join([f"{why.says}. {advice}", record.detail, *evidence]).strip())
    said = ([_in_words(item)] if item is not None else []) + as_lines(beside(record))
    if said:
        Xml.SubElement(case, "system-out").text = visible("\n".join(said))
    return case


def _news_properties(item: Told | None) -> list[tuple[str, str]]:
    if item is None:
        return []
    values = (("state", item.state), ("ticket", item.ticket), ("before", item.before), ("news", item.words))
    return [(key, value) for key, value in values if value]


def _in_words(item: Told) -> str:
    """Return e.g. ``KNOWN [TICKET-1]: the driver loses a queue; was ok``."""
    ticket = f" [{item.ticket}]" if item.ticket else ""
    return f"{item.state.upper()}{ticket}" + (f": {item.words}" if item.words else "")
