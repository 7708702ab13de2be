"""The crash bundle: what is kept of a cell whose logs matter, collected at once, bounded, below ``raw/…/crash/``.

It never decides: what cannot be collected, or not be written, is said and costs the cell nothing.
"""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import harness
from harness.bench.crash_command import command_text, work_name
from harness.bench.crash_phone import NOTHING_ASKED, SOURCES, TOMBSTONE_NAME, PhoneSaid, ask_phone
from harness.bench.evidence import Evidence, Objection
from harness.bench.phone_log import PhoneLog
from harness.bench.steps import ended_well
from harness.bench.triaged import CRASH_BUFFER, KERNEL, PHONE_LOG, STDERR, STDOUT, texts_of, triaged
from harness.core.ids import iso, utc_now
from harness.core.log import phone_logger
from harness.core.reasons import Fault, Reason, Verdict
from harness.payload.folder import PayloadFolder
from harness.payload.probe_events import RunLog
from harness.runners.base import Order, Step
from harness.store.runfolder import write_atomically
from harness.store.schema import CellRecord, Finding
from harness.triage.parcel import MANIFEST, Member, Missing, as_json, bounded, manifest, safe_name, within
from harness.triage.readers.crash import Frame

if TYPE_CHECKING:
    from harness.bench.account import Account
    from harness.triage.symbols import Symbols

FOLDER = "crash"
MOST_BYTES = 8 << 20
_LOG_BYTES = 1 << 20
_OTHER_BYTES = 256 << 10
_SAMPLES = 600
_DEATHS = 60
_LINE = 300
# Rejections that only logs explain; failures of the product are wanted all.
_EXPLAINED_BY_LOGS = frozenset({Reason.OUTPUT_WRONG, Reason.OUTPUT_DEGENERATE, Reason.BACKEND_FALLBACK})
# Processes that died, whoever killed them: lmkd, the kernel, Android's own account of apps.
_DEATH = re.compile(
    rb"lowmemorykiller|\blmkd\b|[Oo]ut of memory|oom-kill|\bam_(?:kill|proc_died|crash|low_memory)\b|"
    rb"ActivityManager.{0,12}:.{0,120}(?:has died|Killing|Force (?:stopping|finishing)|crashed)"
)
_EVIDENCE_FILES = {
    STDERR: "evidence/stderr.log",
    STDOUT: "evidence/stdout.log",
    PHONE_LOG: "evidence/phone.log",
    CRASH_BUFFER: "evidence/crash-buffer.log",
    KERNEL: "evidence/kernel.log",
}
_SAMPLE_FIELDS = (
    "processes", "rss_bytes", "anon_bytes", "swap_bytes", "hwm_bytes", "gpu_bytes", "mem_available_bytes",
)  # fmt: skip


@dataclass
class Ran:
    """What an attempt did on the phone, as far as it came: what was ordered, begun, and read of the phone's log."""

    order: Order | None = None
    steps: list[Step] = field(default_factory=list)
    log: PhoneLog = field(default_factory=PhoneLog)


def is_wanted(objections: Sequence[Objection]) -> bool:
    """Return whether a cell with these objections, the first of which decides, gets a bundle."""
    if not objections:
        return False
    reason = objections[0].reason
    failed = reason.verdict is Verdict.FAILED and reason.fault is Fault.PRODUCT
    return failed or reason in _EXPLAINED_BY_LOGS


def record_with_bundle(
    account: Account, objections: Sequence[Objection], say: Callable[[str], None], *, is_android: bool
) -> CellRecord:
    """Return a cell's record, with a crash bundle beside it where logs matter."""
    if account.raw is not None and is_wanted(objections):
        say("collecting what the phone tells of the failure")
        with _without_harm(account.phone.name):
            account.crash = collect(account, is_android=is_android)
    record = account.record(objections)
    if account.crash is not None:
        with _without_harm(account.phone.name):
            account.crash.write(record)
    return record


@contextmanager
def _without_harm(phone: str) -> Iterator[None]:
    """Keep a verdict from our own bugs in what only explains it."""
    try:
        yield
    except Exception:  # noqa: BLE001  what went wrong with the cell is known, and stays its verdict
        phone_logger(__name__, phone).exception("the crash bundle is not whole")


def collect(account: Account, *, is_android: bool) -> Crash:
    """Ask the phone, once, and keep what the attempt left. Never raises for a phone or for this computer's disk."""
    begun = time.monotonic()
    said = ask_phone(account.phone.transport) if is_android else NOTHING_ASKED
    return Crash(account, said, time.monotonic() - begun)


class Namer:
    """Names frames by the unstripped files of a bundle's folder, which is looked at when the first frame comes.

    Attributes:
        named: what was named so far.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.named: dict[tuple[str, str | None], str] = {}

    @cached_property
    def _symbols(self) -> Symbols:
        from harness.triage.symbols import Symbols  # its ELF reader takes memory that few workers ever need

        return Symbols(self._folder, lines=False)

    def __call__(self, frame: Frame) -> str | None:
        """Return the function of a frame, ``None`` when no file of that build is there."""
        name = self._symbols.name(frame)
        if name is not None:
            self.named[frame.path, frame.pc] = name
        return name


class Crash:
    """One bundle. ``causes`` are the findings of triage on exactly the texts that it keeps as evidence."""

    def __init__(self, account: Account, said: PhoneSaid, took_s: float) -> None:
        self._account, self._said, self._took_s = account, said, took_s
        self._evidence: Evidence | None = account.evidence
        self._log = account.ran.log
        self._texts = {} if self._evidence is None else texts_of(self._evidence, said, self._log)
        self._namer = Namer(account.bundle.folder.root)
        self.causes: tuple[Finding, ...] = triaged(self._texts, self._namer)

    def write(self, record: CellRecord) -> None:
        """Write the bundle; what this computer does not take is said in its log, and costs the record nothing."""
        raw = self._account.raw
        if raw is None:
            return
        folder = raw / FOLDER
        try:
            members, left_out = within(self._members(record), MOST_BYTES)
            for member in members:
                file = folder / member.name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(member.data)
            missing = (*self._missing(), *left_out)
            write_atomically(folder / MANIFEST, manifest(self._head(record), members, missing))
        except OSError as error:
            log = phone_logger(__name__, self._account.phone.name)
            log.warning("the crash bundle could not be written to %s: %s", folder, error)

    def _head(self, record: CellRecord) -> dict[str, Any]:
        bundle = record.bundle
        return {
            "run_id": record.run_id,
            "cell_id": record.cell_id,
            "attempt": record.attempt,
            "collected": iso(utc_now()),
            "took_s": round(self._took_s, 3),
            "transport": self._account.phone.transport.serial,
            "verdict": record.verdict.value,
            "reason": record.reason,
            "fault": record.fault.value if record.fault is not None else None,
            "detail": record.detail,
            "versions": {"mnn-farm": harness.__version__, bundle.engine: bundle.engine_version},
            "log": {
                "begin": "lost" if self._log.rolled else "seen" if self._log.signed else "not written",
                "end": self._end,
                "gap": self._log.gap or None,
            },
            "deaths": deaths_in(self._phone_log),
            "frames": [
                {"path": path, "pc": pc, "function": function} for (path, pc), function in self._namer.named.items()
            ],
            "findings": [finding.model_dump(mode="json") for finding in record.findings],
        }

    @property
    def _end(self) -> str:
        """Whether the log has our line of the run's end, which is written after one that did not end well."""
        if self._log.ended:
            return "seen"
        well = self._evidence is not None and ended_well(self._evidence.run)
        return "not seen" if self._log.signed and not well else "not written"

    @property
    def _phone_log(self) -> bytes:
        return self._evidence.phone_log if self._evidence is not None else self._log.lines

    def _members(self, record: CellRecord) -> Iterator[Member]:
        """Yield the files, those that are wanted most first."""
        account = self._account
        for source, text in self._texts.items():
            name = _EVIDENCE_FILES.get(source) or f"evidence/{safe_name(source)}.txt"
            yield Member(name, text, f"what of {source} is about this run", evidence=True)
        yield from self._command()
        yield Member("record.json", as_json(record.model_dump(mode="json", by_alias=True)), "the cell's record")
        yield Member("facts.json", as_json(account.phone.facts.as_dict()), "the phone's facts")
        yield Member("payload.json", as_json(self._payload()), "hashes of what was pushed", ours=True)
        yield _cut("logcat.log", self._phone_log, "the phone's log since just before the run", _LOG_BYTES)
        for name, text in self._said.texts.items():
            file = _name_of(name)
            member = _cut(file, text, SOURCES.get(name, f"/data/tombstones/{name}"), _OTHER_BYTES)
            yield replace(member, cut=member.cut or self._said.cut.get(name, ""))
        if self._evidence is not None:
            yield Member("memory.csv", memory_table(self._evidence.run), "the run's samples, in bytes", ours=True)

    def _command(self) -> Iterator[Member]:
        ran, transport = self._account.ran, self._account.phone.transport
        if ran.order is None:
            return
        server = transport.server
        text = command_text(ran.order, ran.steps, transport.serial, server[0] if server is not None else None)
        yield Member("command.txt", text.encode(), "how to repeat it")
        for step in ran.steps:
            for name, content in sorted(step.files.items()):
                yield Member(work_name(step, name), content, "what the command wants in its folder")

    def _payload(self) -> dict[str, Any]:
        bundle, model = self._account.bundle, self._account.model
        return {
            "bundle": {"name": bundle.manifest.name, "hash": bundle.hash, "files": _files(bundle.folder)},
            "model": {"name": model.name, "hash": model.folder.hash, "files": _files(model.folder)},
        }

    def _missing(self) -> Iterator[Missing]:
        for name, why in self._said.missing.items():
            yield Missing(SOURCES.get(name, name), why)
        if self._evidence is None:
            yield Missing(
                "evidence", "the run came to no end that was seen; stdout and stderr lie beside, as far as read"
            )
        if self._log.gap:
            yield Missing("logcat", self._log.gap)
        elif not self._log.signed:
            yield Missing("marker in the phone's log", "the phone has no `log`, or its log does not show what it wrote")
        if self._account.ran.order is None:
            yield Missing("command", "nothing had been ordered yet")


def memory_table(run: RunLog) -> bytes:
    """Return the last samples of a run as CSV: seconds since its start, and memory in bytes; empty is not known."""
    start = run.start.mono_ns if run.start is not None else 0
    # The first shows what there was before; what counts are the last.
    chosen = run.samples if len(run.samples) <= _SAMPLES else [run.samples[0], *run.samples[1 - _SAMPLES :]]
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["t_s", *_SAMPLE_FIELDS])
    for sample in chosen:
        table.writerow([f"{(sample.mono_ns - start) / 1e9:.3f}", *(getattr(sample, name) for name in _SAMPLE_FIELDS)])
    return out.getvalue().encode()


def deaths_in(log: bytes) -> list[str]:
    """Return the lines of a phone's log that tell of processes that died, the last ones."""
    found = [line for line in log.splitlines() if _DEATH.search(line)]
    return [line.decode("utf-8", "replace").strip()[:_LINE] for line in found[-_DEATHS:]]


def _cut(name: str, data: bytes, source: str, limit: int) -> Member:
    kept, cut = bounded(data, limit)
    return Member(name, kept, source, cut)


def _name_of(source: str) -> str:
    if source.startswith(TOMBSTONE_NAME):
        return f"{safe_name(source)}.txt"
    return {"crash": "crash-buffer.log", "dmesg": "dmesg.log", "meminfo": "meminfo-at-death.txt"}.get(
        source, f"{safe_name(source)}.txt"
    )


def _files(folder: PayloadFolder) -> list[dict[str, Any]]:
    return [{"path": file.path, "bytes": file.size, "sha256": file.sha256} for file in folder.files]
