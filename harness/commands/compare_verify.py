"""``compare --verify``: what got worse is measured again on the same phone before it is called a regression.

Each such cell gets a run folder of its own beside the new run's, made by pytest as any other: with both builds by turns
where the old one is still here and another one, else with the new one alone. What cannot be measured again (the phone
is away, a build or the model is gone) stays a regression, and is called unverified.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.commands.compare import Run
from harness.core.errors import ConfigError, FarmError
from harness.core.ids import utc_now
from harness.fleet.look import look_at_all
from harness.fleet.servers import list_phones, read_servers
from harness.payload.bundle import Bundle, default_bundle, read_bundle
from harness.payload.bundles_place import imported_bundles
from harness.phone.health import HealthStore
from harness.report.compare import Compared, Comparison, compare_builds, compare_records
from harness.report.text import one_line, plural
from harness.store.head import RunInfo
from harness.store.runfolder import RunFolder, write_atomically
from harness.store.schema import CellRecord, PhoneInfo

Say = Callable[[str], None]
# From a phone to the name under which adb lists it now.
Find = Callable[[PhoneInfo], str]
# What pytest ends with when cells were measured, whatever became of them.
_MEASURED = (0, 1, 10)
_MOST_SAID = 300
# Two rounds of turns; starting, taking the phone and pushing; and what a turn needs beside its own deadlines.
_TURNS = 8
_BESIDES_S = 3600.0
_BESIDES_A_TURN_S = 300.0
# How long pytest may take to leave a phone as it was found.
_ENDS_S = 120.0


class _NotHereError(Exception):
    """What a measurement needs is gone."""


def verify(comparison: Comparison, base: Run, new: Run, say: Say, adb: str | None = None) -> Comparison:
    """Measure again what got worse, one cell after the other, and return the comparison with what came of it."""
    worse = comparison.regressions
    if worse:
        say(f"{plural(len(worse), 'cell')} got worse and {'is' if len(worse) == 1 else 'are'} measured again")
    cells = [
        _verified(cell, base, new, comparison.bound, say, adb) if cell in worse else cell for cell in comparison.cells
    ]
    return comparison.with_cells(cells)


def _verified(cell: Compared, base: Run, new: Run, bound: float, say: Say, adb: str | None) -> Compared:
    try:
        folder = _measure(cell, base, new, say, adb)
    except _NotHereError as gone:
        return replace(cell, check="unverified", checked=str(gone))
    records = list(RunFolder(folder).records())
    if {record.phone.id for record in records} != {cell.new.phone.id}:
        return replace(cell, check="unverified", checked=f"another phone than {one_line(cell.new.phone.name)} answered")
    by_turns = compare_builds(records, bound=bound).cells
    again = by_turns[0] if by_turns else compare_records(cell.base, records[-1], bound)
    return outcome(cell, again, str(folder))


def outcome(cell: Compared, again: Compared, where: str) -> Compared:
    """Return a regression as the second measurement leaves it: confirmed, refuted, or unverified with the reason."""
    if again.state == "cannot tell":
        return replace(cell, check="unverified", checked=f"the second measurement failed: {again.words} ({where})")
    if cell.state == "broken":
        return replace(cell, check="confirmed" if again.state == "broken" else "refuted", checked=where)
    if again.state == "broken":
        return replace(cell, check="confirmed", checked=f"{again.words} ({where})")
    names = {figure.name for figure in cell.worse}
    verdicts = {figure.change.verdict for figure in again.figures if figure.name in names}
    # What was measured last is shown.
    figures = tuple(again.figure(figure.name) or figure for figure in cell.figures)
    if "slower" in verdicts:
        return replace(cell, figures=figures, check="confirmed", checked=where)
    if not verdicts or "cannot tell" in verdicts:
        return replace(cell, check="unverified", checked=f"the second measurement cannot tell ({where})")
    return replace(cell, figures=figures, check="refuted", checked=where)


def _measure(cell: Compared, base: Run, new: Run, say: Say, adb: str | None) -> Path:
    """Run pytest for one cell and return its run folder."""
    device = _device(cell.new, new.info, lambda phone: find_phone(phone, adb))
    now = _build(cell.new, new.info)
    if now is None:
        raise _NotHereError(f"the build {one_line(cell.new.bundle.name)} is not here any more")
    then = _build(cell.base, base.info) if cell.base.bundle.hash != cell.new.bundle.hash else None
    folder = _free(new.folder.path.resolve(), cell.new.cell_id[:6])
    plan = folder.with_name(f"{folder.name}.plan.toml")
    write_atomically(plan, as_toml(one_cell_plan(cell, new.info)).encode())
    builds = ["--bundle", str(now)] if then is None else ["--ab", f"{then},{now}"]
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices", device, "--plan", str(plan)]
    argv += [*builds, "--run-dir", str(folder), *(["--adb", adb] if adb else [])]
    say(f"measuring {one_line(cell.new.phone.name)} {cell.new.cell_id[:6]} again: {folder}")
    status, text = run_pytest(argv, _patience_s(new.info, 1 if then is None else _TURNS))
    if status not in _MEASURED or not (folder / "results.jsonl").exists():
        said = [line for line in text.splitlines() if "ERROR:" in line or "mnn-farm:" in line]
        raise _NotHereError(one_line(said[-1] if said else f"pytest ended with {status}")[:_MOST_SAID])
    return folder


def _patience_s(info: RunInfo, turns: int) -> float:
    """Return how long a measurement of so many turns may take at the most: each of them has deadlines of its own."""
    cool = (info.plan.get("cool") or {}).get("timeout_s", 0.0)
    return float(_BESIDES_S + turns * (info.plan.get("cell_timeout_s", 600.0) + cool + _BESIDES_A_TURN_S))


def run_pytest(argv: Sequence[str], patience_s: float) -> tuple[int, str]:
    """Run pytest and return its exit status and what it printed.

    However this ends, pytest has the time to leave the phone as it was found.

    Raises:
        _NotHereError: it did not end in time.
    """
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        text, _ = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        _wait_for_end(process)
        raise _NotHereError(f"the second measurement did not end in {patience_s:.0f} s") from None
    except KeyboardInterrupt:  # which the terminal sent to pytest, too
        _wait_for_end(process)
        raise
    return process.returncode, text


def _wait_for_end(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _device(record: CellRecord, info: RunInfo, find: Find) -> str:
    """Return the word of ``--devices`` for the phone of a record, which its id finds behind whatever cable it is."""
    member = next((member for member in info.fleet if member.phone.id == record.phone.id), None)
    if member is not None and member.provider == "host":
        return "host"
    if member is not None and member.provider != "adb":
        raise _NotHereError(f"{one_line(record.phone.name)} came of {member.provider} and ended with its run")
    return find(record.phone)


def find_phone(phone: PhoneInfo, adb: str | None) -> str:
    """Return the name under which adb lists a phone now.

    Raises:
        _NotHereError: it does not list it, or the phone cannot be used.
    """
    try:
        listing = list_phones(read_servers(adb))
    except FarmError as error:
        raise _NotHereError(one_line(str(error))) from None
    seen = next((one for one in look_at_all(listing.phones, HealthStore(), utc_now()) if one.id == phone.id), None)
    if seen is None:
        raise _NotHereError(f"the phone {one_line(phone.name)} is not here")
    if seen.why is not None:
        raise _NotHereError(f"the phone {one_line(seen.name)} cannot be used: {one_line(seen.why.reason)}")
    return seen.name


def _build(record: CellRecord, info: RunInfo) -> Path | None:
    """Return the folder of the build that a record was measured with, if it is still here as it was."""
    sources = [info.bundle, info.ab.bundle if info.ab is not None else None]
    folders = [Path(one.folder) for one in sources if one is not None and one.hash == record.bundle.hash]
    found: list[Bundle] = []
    for folder in folders:
        try:
            found.append(read_bundle(folder))
        except FarmError:  # moved, or changed: then it may be among the imported ones
            continue
    for bundle in (*found, default_bundle(), *imported_bundles()):
        if bundle.hash == record.bundle.hash:
            return bundle.folder.root.resolve()
    return None


def _free(run: Path, cell: str) -> Path:
    names = (f"{run.name}-verify-{cell}" + (f"-{number}" if number > 1 else "") for number in itertools.count(1))
    return next(path for name in names if not (path := run.with_name(name)).exists())


def one_cell_plan(cell: Compared, info: RunInfo) -> dict[str, Any]:
    """Return the new run's plan cut down to one cell.

    Raises:
        ConfigError: the model is not where the run had it.
    """
    record, config = cell.new, cell.new.config
    source = next((source for source in info.models.values() if source.hash == record.model.hash), None)
    if source is None or not Path(source.folder).is_dir():
        raise _NotHereError(f"the model {one_line(record.model.name)} is not here any more")
    plan = {
        **info.plan,
        "models": [source.folder],
        "backends": [config.backend],
        # A GPU's number is a mode, which the plan does not name.
        "threads": [config.threads if config.backend == "cpu" else 1],
        "affinity": [config.affinity or "any"],
        "precision": [config.precision],
        "memory": [config.memory],
        "runner": record.bundle.runner,
        "warmups": config.warmups,
        "repeats": config.repeats,
    }
    if config.kind == "tensor":  # whose plan has nothing of what follows
        return plan
    plan |= {
        "prompt_tokens": [config.prompt_tokens],
        "generate_tokens": [config.generate_tokens],
        "context_tokens": [config.context_tokens],
        "engine": dict(config.engine),
    }
    if "golden" not in {figure.name for figure in cell.worse}:
        plan["golden"] = {"set": "none"}
    return plan


def as_toml(plan: Mapping[str, Any]) -> str:
    """Return a plan in JSON form as TOML; what is ``None`` is left out, as TOML has no word for it."""
    return "".join(f"{key} = {_toml(value)}\n" for key, value in plan.items() if value is not None)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {_toml(one)}" for key, one in value.items() if one is not None)
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(_toml(one) for one in value)}]"
    if isinstance(value, (bool, int, float, str)):
        # JSON's words for these are TOML's, but for the one character that only TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    raise ConfigError(f"a plan cannot hold {value!r}")
