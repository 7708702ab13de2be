"""The files of a bug report about one cell, from its run folder alone."""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from harness.core.errors import HostError
from harness.core.reasons import Fault, Verdict
from harness.report.besides import deciding, known_cause
from harness.report.cells import pytest_id
from harness.report.text import one_line, plural, visible
from harness.store.head import RunInfo
from harness.store.runfolder import write_atomically
from harness.store.schema import CellConfig, CellRecord
from harness.triage.parcel import (
    MANIFEST,
    Member,
    Missing,
    as_json,
    bounded,
    manifest,
    redact_members,
    safe_path,
    within,
    zipped,
)
from harness.triage.redact import Redactor

FOLDER = "crash"
MOST_BYTES = 16 << 20
_EACH_BYTES = 2 << 20
_README = "README.md"
# What a run leaves beside the bundle, for each of its steps.
_RAW = ("stdout", "stderr", "events.jsonl")
_LOG = "logcat"
_SHOWN = 12


@dataclass(frozen=True)
class Parcel:
    """A zip that was written. ``masked`` is what was taken out, by kind; ``None`` when nothing was to be."""

    path: Path
    members: tuple[Member, ...]
    missing: tuple[Missing, ...]
    masked: tuple[str, ...] | None


def write_parcel(run_dir: Path, info: RunInfo, record: CellRecord, out: Path, *, redact: bool) -> Parcel:
    """Write everything that is known of a cell into one zip.

    Raises:
        HostError: it cannot be written, or the run folder cannot be read.
    """
    try:
        head, members, missing = _collected(run_dir, record)
        members = [*members, *_of_run(run_dir, info, record, {member.name for member in members})]
    except OSError as error:
        raise HostError(f"{run_dir} cannot be read ({error})", remedy="check the run folder") from error
    members, left_out = within(members, MOST_BYTES)
    missing += left_out
    masked = None
    if redact:
        redactor = _redactor(info, record, head)
        members = redact_members(members, redactor)
        record = CellRecord.model_validate_json(redactor.json(record.model_dump_json(by_alias=True)))
        info = RunInfo.model_validate_json(redactor.json(info.model_dump_json(by_alias=True)))
        head = json.loads(redactor.json(as_json(head).decode()))
        missing = [Missing(redactor.text(one.what), redactor.text(one.why)) for one in missing]
        masked = tuple(redactor.told())
    members = [_readme(info, record, head, members, missing), *members]
    whole = [Member(MANIFEST, manifest(head, members, missing), "what is here"), *members]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, zipped(whole))
    except OSError as error:
        raise HostError(f"{out} cannot be written ({error.strerror})", remedy="choose another place with -o") from error
    return Parcel(out, tuple(whole), tuple(missing), masked)


def is_failure(record: CellRecord) -> bool:
    """Return whether a bug report about a cell makes sense: it went wrong, and the product is at fault."""
    return record.verdict in (Verdict.FAILED, Verdict.REJECTED) and record.fault is Fault.PRODUCT


def sentence(record: CellRecord) -> str:
    """Return what went wrong in one line."""
    known = known_cause(record)
    said = record.detail if known is None else known.title
    return one_line(f"{record.verdict.value}, {record.reason or 'fine'}: {said}" if said else record.verdict.value)


def _collected(run_dir: Path, record: CellRecord) -> tuple[dict[str, Any], list[Member], list[Missing]]:
    """Return what was collected when it went wrong, with its manifest's head; nothing of it is believed unchecked."""
    folder = _raw_dir(run_dir, record)
    try:
        document = json.loads((folder / FOLDER / MANIFEST).read_bytes()) if folder is not None else {}
    except (OSError, ValueError, RecursionError):
        document = {}
    document = document if isinstance(document, dict) else {}
    head = {key: value for key, value in document.items() if key not in ("schema", "files", "missing")}
    members = []
    missing = [Missing(str(one.get("what")), str(one.get("why"))) for one in _dicts(document.get("missing"))]
    for one in _dicts(document.get("files")):
        name = str(one.get("name"))
        data = None if folder is None or safe_path(name) != name else _read(folder / FOLDER, name)
        if data is None:
            missing.append(Missing(name, "it is no longer in the run folder"))
            continue
        evidence, cut = one.get("evidence") is True, str(one.get("cut") or "")
        members.append(
            Member(name, data, str(one.get("source")), cut, evidence, name.endswith((".csv", "payload.json")))
        )
    if not document:
        head = {"run_id": record.run_id, "cell_id": record.cell_id, "attempt": record.attempt}
        why = "none was collected: that is done for failures of the product that began to run"
        missing.append(Missing("crash bundle", why))
    return head, members, missing


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _of_run(run_dir: Path, info: RunInfo, record: CellRecord, there: set[str]) -> Iterator[Member]:
    """Yield what the run folder tells besides. Where no bundle was collected, it is all the evidence that there is."""
    collected = "record.json" in there
    folder = _raw_dir(run_dir, record)
    if folder is not None:
        steps = ["", *sorted(f"{path.name}/" for path in folder.iterdir() if path.is_dir() and path.name != FOLDER)]
        for step in steps:
            for file in (*_RAW, *((_LOG,) if not collected else ())):
                data = _read(folder, f"{step}{file}")
                if data is not None:
                    kept, cut = bounded(data, _EACH_BYTES)
                    name = f"raw/{step}{file}" if "." in file else f"raw/{step}{file}.log"
                    evidence = not collected and file not in ("events.jsonl",)
                    yield Member(name, kept, f"{record.raw}{step}{file}", cut, evidence)
    if not collected:
        yield Member("record.json", as_json(record.model_dump(mode="json", by_alias=True)), "the cell's record")
        facts = next((one.facts for one in info.fleet if one.phone.id == record.phone.id), None)
        if facts is not None:
            yield Member("facts.json", as_json(facts), "the phone's facts")
    run = info.model_dump(mode="json", by_alias=True, exclude={"fleet", "left_out", "resumptions"})
    yield Member("run.json", as_json(run), "the run's head, without its phones")


def _raw_dir(run_dir: Path, record: CellRecord) -> Path | None:
    """Return the cell's folder of raw output, if the record names one that lies in the run folder."""
    if record.raw is None or PurePosixPath(record.raw).is_absolute() or ".." in PurePosixPath(record.raw).parts:
        return None
    folder = run_dir / record.raw
    return folder if folder.is_dir() else None


def _read(folder: Path, name: str) -> bytes | None:
    """Read a file that lies in a folder; links that lead out of it are not followed."""
    file = folder / name
    inside = file.is_file() and file.resolve().is_relative_to(folder.resolve())
    return file.read_bytes() if inside else None


def _redactor(info: RunInfo, record: CellRecord, head: dict[str, Any]) -> Redactor:
    """Return one that knows what the run knows of its phones: this one's names first."""
    phones = [record.phone, *(member.phone for member in info.fleet)]
    redactor = Redactor(phone.serial for phone in phones)
    redactor.know("serial", [str(head.get("transport") or "")])
    # A name that is the model's is nobody's.
    redactor.know("phone", (phone.name for phone in phones if phone.name != phone.model))
    redactor.know("phone-id", (phone.id for phone in phones))
    # Phones that were asked for and took no part.
    redactor.learn([" ".join(info.command)])
    # Leases tell by whom they are held. A name that is a word would be masked in what the log says.
    if not platform.node().isalpha():
        redactor.know("host", [platform.node()])
    return redactor


def _lengths(config: CellConfig) -> str:
    return f"{config.prompt_tokens} prompt and {config.generate_tokens} generated tokens"


def _readme(
    info: RunInfo, record: CellRecord, head: dict[str, Any], members: Sequence[Member], missing: Sequence[Missing]
) -> Member:
    """Return what a maintainer reads first."""
    why, phone, bundle, config = record.why, record.phone, record.bundle, record.config
    says = why.says if why is not None else "the cell is ok"
    facts = next((one.facts for one in info.fleet if one.phone.id == phone.id), {})
    lines = [
        f"# {one_line(record.reason or record.verdict.value)} on {one_line(phone.model or 'an unknown phone')}",
        "",
        f"- what: {one_line(says)}. {one_line(record.detail)}",
        f"- where: {_text(config.backend)}, {plural(config.threads, 'thread')}, precision {_text(config.precision)}, "
        + ("inferences" if config.kind == "tensor" else _lengths(config)),
        f"- engine: {_text(bundle.engine)} {_text(bundle.engine_version or '(it did not say its version)')}, "
        f"bundle {_text(bundle.name)} {bundle.hash[:12]}, runner {_text(bundle.runner)}",
        f"- model: {_text(record.model.name)} {record.model.hash[:12]}",
        f"- phone: {_text(phone.model or 'unknown model')}, {_text(phone.soc or 'unknown SoC')}, "
        f"Android {_text(str(facts.get('android_release') or 'unknown'))}, "
        f"{_text(phone.fingerprint or 'no fingerprint')}",
        f"- mnn-farm {_text(record.harness_version)}, run {_text(record.run_id)}, attempt {record.attempt}",
        "",
        "## Findings",
        "",
        *_findings(record),
        *_evidence(record, head),
        "## Command",
        "",
        *_command(members),
        "With mnn-farm, this cell alone:",
        "",
        *_fenced(shlex.join([*_without_folder(info.command), "-k", record.cell_id[:6]])),
        "## What is not here",
        "",
        *[f"- {_text(one.what)}: {_text(one.why)}" for one in missing],
        *([] if missing else ["Nothing is missing."]),
        "",
        "`crash.json` lists every file with its size, its hash and what was cut off. "
        "`mnn-farm triage` reads this zip as it is.",
    ]
    return Member(_README, ("\n".join(lines) + "\n").encode("utf-8", "replace"), "to be read first")


def _findings(record: CellRecord) -> list[str]:
    lines = [f"- verdict: {_text(found.title)}" for found in deciding(record)]
    for found in (one for one in record.findings if one.cause):
        lines += [f"- {_text(found.code)}: {_text(found.title)}", f"  - why: {_text(found.cause)}"]
        lines += [f"  - do: {_text(found.advice)}"] if found.advice else []
    return [*lines, "" if lines else "None.", *([] if lines else [""])]


def _evidence(record: CellRecord, head: dict[str, Any]) -> list[str]:
    found = known_cause(record) or next(iter(deciding(record)), None)
    told = head.get("deaths")
    deaths = [line for line in (told if isinstance(told, list) else ()) if isinstance(line, str)][-_SHOWN:]
    shown = [*(found.evidence.split("\n") if found is not None and found.evidence else ()), *deaths]
    return ["## Evidence", "", *_fenced("\n".join(dict.fromkeys(shown)))] if shown else []


def _command(members: Sequence[Member]) -> list[str]:
    text = next((member.data for member in members if member.name == "command.txt"), None)
    return ["It is not known.", ""] if text is None else _fenced(text.decode("utf-8", "replace").rstrip("\n"))


def _without_folder(command: Sequence[str]) -> Iterator[str]:
    """Yield a run's command without the folder that it went to, which is taken now."""
    words = iter(command)
    for word in words:
        if word == "--run-dir":
            next(words, None)
        elif not word.startswith("--run-dir=") and word != "--resume":
            yield word


def _fenced(text: str) -> list[str]:
    fence = "````" if "```" in text else "```"
    return [fence, visible(text), fence, ""]


def _text(text: str) -> str:
    """Return a text of a phone for a line of Markdown: no link, no image, no HTML comes of it."""
    return "".join(f"\\{char}" if char in "[]<>`*|\\" else char for char in one_line(text))


def named_beside(out: Path | None, record: CellRecord, *, many: bool) -> Path:
    """Return where the zip of a cell goes; its name tells no phone."""
    name = f"crash-{record.reason or record.verdict.value}-{record.cell_id[:6]}.zip"
    if out is None:
        return Path(name)
    return out / name if many or out.is_dir() else out


def describe(record: CellRecord) -> dict[str, str]:
    """Return a cell for a list of choices."""
    return {"cell_id": record.cell_id, "test": pytest_id(record), "says": sentence(record)}
