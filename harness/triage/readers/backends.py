"""The same work on a GPU and on the CPU, and a second start with a cache, as people write them side by side. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.triage.entry import Entry, Evidence
from harness.triage.readers.benched import Benched

_NAMES = ("opencl", "vulkan", "opengl", "metal", "gpu", "npu", "qnn", "nnapi", "hexagon")
_BACKEND = re.compile(rf"(?i)(?<![a-z])(cpu|{'|'.join(_NAMES)})(?![a-z])")
# A line speaks of one backend when it names it first, as `# cpu: …`, `backend=cpu …` or `llm backend: opencl, …`.
_SAYS = re.compile(rf"(?i)^\W{{0,4}}(?:\w{{1,10}} )?(?:backend(?:_type)?\s?[:=]\s?)?(cpu|{'|'.join(_NAMES)})(?![a-z])")
_FIGURE = re.compile(r"(?i)(?<![\w.])(\d{1,7}(?:\.\d{1,6})?) ?(ms|s|tok(?:ens?)?/s|t/s|tps|fps)(?![\w/])")
_MEAN = re.compile(r"(?i)\bavg\s?[:=]\s{0,8}(\d{1,7}(?:\.\d{1,6})?) ?(ms|s)(?![\w/])")
_PHASE = re.compile(r"(?i)prefill|decode|load|create ?session|init|pp\d{1,5}|tg\d{1,5}")
# Several figures in one line, each behind its name: `prefill 45.2 tok/s, decode 14.1 tok/s`.
_NAMED = re.compile(
    rf"(?i)(?:{_PHASE.pattern.removeprefix('(?i)')})[^\d,;|]{{0,15}}{_FIGURE.pattern.removeprefix('(?i)')}"
)
# MNN's benchmark.out: which backend, then a line for each model.
_FORWARD = re.compile(r"(?i)^forward type:\W{0,6}(\w{2,10})")
_AVERAGE = re.compile(r"^\[ ?- ?\] (?P<model>\S{1,120})\s.{0,80}avg =\s{0,8}(?P<ms>\d{1,7}(?:\.\d{1,6})?) ?ms")
_SPEED_WORDS = frozenset(
    ("tok/s", "t/s", "tokens/s", "tok_per_s", "tps", "decode", "decode_tps", "speed", "tokens_per_second")
)
_RATES = frozenset(("tok/s", "tokens/s", "token/s", "t/s", "tps", "fps"))
# Less than this is no difference that anybody would report.
_CLEAR = 1.15
# Two figures of one backend differ by this much anyway.
_SAME = 0.03
_CREATE = re.compile(
    r"(?i)(?:create ?session|session creation).{0,20}(?P<run>first|second|1st|2nd)"
    r".{0,20}?(?P<seconds>\d{1,4}(?:\.\d{1,3})?) ?s\b"
)
# A cache that works leaves less than this of the time; a start as short as this needs none.
_SAVES = 0.8
_SHORT_S = 2.0


@dataclass(frozen=True)
class _Figure:
    """What one backend took or did for one piece of work. ``cost`` is higher where it is slower."""

    backend: str
    work: str
    cost: float
    shown: str
    evidence: tuple[Evidence, ...]


def backend_entries(entries: Sequence[Entry], rows: Sequence[Benched]) -> Iterator[Entry]:
    """Yield lines for rules: the GPU is slower, or the same, in all that was compared; a cache saved nothing."""
    figures = [*_benchmark(entries), *_said(entries), *_columns(entries), *_benched(rows)]
    by_work: dict[str, dict[str, _Figure]] = {}
    for figure in figures:
        by_work.setdefault(figure.work, {}).setdefault(figure.backend, figure)
    pairs = [
        (one["cpu"], gpu) for one in by_work.values() if "cpu" in one for name, gpu in one.items() if name != "cpu"
    ]
    if pairs and all(gpu.cost >= _CLEAR * cpu.cost for cpu, gpu in pairs):
        cpu, gpu = max(pairs, key=lambda pair: pair[1].cost / pair[0].cost)
        yield _compared("slower", cpu, gpu, f" times=[{gpu.cost / cpu.cost:.1f}]")
    elif len(pairs) > 1 and all(abs(gpu.cost / cpu.cost - 1) < _SAME for cpu, gpu in pairs):
        yield _compared("same", *pairs[0])
    yield from _cached(entries)


def _compared(how: str, cpu: _Figure, gpu: _Figure, more: str = "") -> Entry:
    text = f"backends: {how} gpu=[{gpu.backend}] gpu_value=[{gpu.shown}] cpu_value=[{cpu.shown}]{more}"
    return Entry(text, "table", (*cpu.evidence, *gpu.evidence))


def _benchmark(entries: Sequence[Entry]) -> Iterator[_Figure]:
    backend = None
    for entry in entries:
        if (forward := _FORWARD.match(entry.text)) is not None:
            backend = forward[1].lower()
        elif backend is not None and (row := _AVERAGE.match(entry.text)) is not None and float(row["ms"]) > 0:
            yield _Figure(backend, f"model {row['model']}", float(row["ms"]), f"{row['ms']} ms", entry.evidence)


def _said(entries: Sequence[Entry]) -> Iterator[_Figure]:
    for entry in entries:
        text = entry.text
        if entry.kind not in ("note", "text") or len(text) > 160 or (says := _SAYS.match(text)) is None:
            continue
        if len(set(map(str.lower, _BACKEND.findall(text)))) != 1:
            continue
        figures = _MEAN.findall(text) or _FIGURE.findall(text)
        named = [match[0] for match in _NAMED.finditer(text)]
        for part in [text] if len(figures) == 1 else named if len(named) == len(figures) else []:
            number, unit = (_MEAN.findall(part) or _FIGURE.findall(part))[0]
            value, unit = float(number), unit.lower()
            if value > 0:
                phase = "" if (found := _PHASE.search(part)) is None else found[0].lower()
                cost = 1 / value if unit in _RATES else value * (1000 if unit == "s" else 1)
                work = f"said {phase} {'rate' if unit in _RATES else 'time'}"
                yield _Figure(says[1].lower(), work, cost, f"{number} {unit}", entry.evidence)


def _columns(entries: Sequence[Entry]) -> Iterator[_Figure]:
    """Yield rows of a small table of which one column is the backend and another its speed."""
    places: tuple[int, int] | None = None
    width = 0
    for entry in entries:
        cells = [cell.strip("*` ").lower() for cell in re.split(r"[|,\t]|\s{1,20}", entry.text.strip("| ")) if cell]
        speed = next((place for place, cell in enumerate(cells) if cell in _SPEED_WORDS), None)
        if "backend" in cells and speed is not None and len(cells) <= 8:
            places, width = (cells.index("backend"), speed), len(cells)
        elif places is not None and len(cells) == width and (cells[places[0]] == "cpu" or cells[places[0]] in _NAMES):
            rest = " ".join(cell for place, cell in enumerate(cells) if place not in places and not cell[:1].isdigit())
            value = re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", cells[places[1]])
            if value is not None and float(value[0]) > 0:
                shown = f"{value[0]} tok/s"
                yield _Figure(cells[places[0]], f"column {rest}", 1 / float(value[0]), shown, entry.evidence)


def _benched(rows: Sequence[Benched]) -> Iterator[_Figure]:
    for one in rows:
        row = one.row
        backend = (row.backend or "").lower()
        if not one.in_table or not (backend == "cpu" or backend in _NAMES):
            continue
        for speed in row.speeds:
            if speed.tps > 0:
                work = f"bench {row.model} {row.test} {row.precision} {speed.phase}"
                yield _Figure(backend, work, 1 / speed.tps, f"{speed.tps:g} tok/s", one.entry.evidence)


def _cached(entries: Sequence[Entry]) -> Iterator[Entry]:
    runs: dict[bool, tuple[float, tuple[Evidence, ...]]] = {}
    for entry in entries:
        if (match := _CREATE.search(entry.text[:300])) is not None:
            runs.setdefault(match["run"].lower() in ("first", "1st"), (float(match["seconds"]), entry.evidence))
    if len(runs) == 2 and runs[True][0] > _SHORT_S and runs[False][0] > _SAVES * runs[True][0]:
        yield Entry("backends: cache saves nothing", "table", (*runs[True][1], *runs[False][1]))
