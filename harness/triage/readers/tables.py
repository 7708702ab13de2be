"""Columns of numbers that people write beside a problem: speed by threads, speed over time with heat. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from harness.triage.entry import Entry, Evidence
from harness.triage.readers.benched import Benched

# What parts the columns: a sign of its own, else blanks.
_SIGNS = ("|", "\t", ",", ";")
_NUMBER = re.compile(
    r"(?P<value>[-+]?\d{1,9}(?:\.\d{1,6})?)(?: ?(?:±|\+/-) ?\d{1,9}(?:\.\d{1,6})?)?"
    r"(?: ?(?:%|°?C|[GMk]Hz|s|min|[GMKk]i?[Bb]|(?:tok(?:ens?)?|t)/s))?$"
)
# How people call the columns that matter.
_WORDS = {
    "threads": "threads thread t n_threads thread_num numthread num_threads",
    "time": (
        "minute minutes min time time_s t_s second seconds elapsed elapsed_s run runs iter iteration iterations round "
        "step inferences loop loops"
    ),
    "speed": (
        "tok_per_s tok/s t/s tokens/s token/s tokens_per_s tokens_per_second tps decode_tps decode "
        "decode_speed tok_s decode_tok_s speed speed(tok/s)"
    ),
    "heat": (
        "zone_c zone temp temp_c temperature temperature_c cpu_temp cpu_temp_c cpu_c soc_c soc_temp "
        "skin skin_c battery battery_c battery_temp batt_c bat_c °c c"
    ),
    "memory": "memory mem memory_mb mem_mb rss rss_mb rss_kb pss pss_mb pss_kb native_heap heap_mb vmrss",
    # 0 to 6 of Android's thermal service.
    "status": "thermal_status thermal throttling_status",
    "latency": "ms avg_ms median_ms mean_ms latency latency_ms time_ms inference_ms infer_ms p50 p50_ms cost_ms",
    "clock": (
        "cpu_ghz cpu_mhz cpu_khz cpu_freq gpu_mhz freq freq_mhz freq_ghz freq_khz clock clock_mhz clock_ghz khz mhz ghz"
    ),
}
_NAMES = {meaning: frozenset(words.split()) for meaning, words in _WORDS.items()}
# Several settings in one line.
_PART = re.compile(r"[;；]")
# One of them stands in every line that names a number of threads.
_THREAD_HINTS = ("hread", "HREAD", "-t", "t=", "t =")
_LOOSE = {
    "latency": re.compile(r"(?<![\d.])(\d{1,7}(?:\.\d{1,6})?) ?ms(?![a-z])"),
    "threads": re.compile(
        r"(?:(?<![A-Za-z])(?:n_|num_?)?threads?(?:_num)?|(?<!\S)-t|(?<![\w-])t(?==))[ =:]{1,3}(\d{1,3})(?![\d.])"
        r"|\b(\d{1,3}) threads?\b|\bthreads? \((\d{1,3})\)",
        re.IGNORECASE,
    ),
    "speed": re.compile(
        r"(\d{1,6}(?:\.\d{1,6})?) ?(?:(?:tok(?:ens?)?|t)/s|tokens? per second)\b"
        r"|\b(?:tps|tok_per_s)[ =:]{1,3}(\d{1,6}(?:\.\d{1,6})?)"
    ),
    "heat": re.compile(r"(\d{2,3}(?:\.\d{1,3})?) ?°?C\b|\btemp(?:erature)?[ =:]{1,3}(\d{2,3}(?:\.\d{1,3})?)"),
    "clock": re.compile(r"(\d{1,5}(?:\.\d{1,4})?) ?[GM]Hz\b|\bfreq[ =:]{1,3}(\d{3,7})\b"),
}
# Two lines so near each other tell of the same work.
_NEAR = 2
# Of several speeds in one line that of decoding counts.
_DECODE = re.compile(
    r"(?i)(?<!prompt )\b(?:eval|decode|decoding|generation|tg)\b[^\d]{0,16}(?P<speed>\d{1,6}(?:\.\d{1,6})?) ?"
    r"(?:(?:tok(?:ens?)?|t)/s|tokens? per second)\b"
)
# Beyond the cliff a speed is a quarter of the best at most.
_CLIFF = 0.25
# Sustained speed below this share of the first one, while it gets hot, is throttling.
_FALL = 0.75
_WARMER_C = 4.0
_LEAST_ROWS = 4
# What another tool makes of the same model: "llama.cpp: about 52 tok/s".
_REFERENCE = re.compile(
    r"(?i)(?:llama\.?cpp|llama-bench|mlc|executorch|same model|reference|expected|other (?:tool|engine)|published)"
    r".{0,60}?\b(\d{1,4}(?:\.\d{1,3})?) ?(?:tok(?:ens?)?|t)/s"
)
# Tools differ by less than this when both are right.
_BEYOND = 4.0
# Prefill below this share of that of the shortest prompt, over so many lengths, is told.
_SLOWER = 0.85
_LEAST_LENGTHS = 3
# Memory that never falls and is so many times that of the second row leaks.
_GROWN = 1.5
_WORST_STATUS = 6


@dataclass(frozen=True)
class Table:
    """Columns by what they mean; ``rows`` has as many numbers in each row as there are columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]
    evidence: tuple[Evidence, ...]

    def column(self, meaning: str) -> list[float] | None:
        """Return the numbers of a column, ``None`` if there is none."""
        return [row[self.columns.index(meaning)] for row in self.rows] if meaning in self.columns else None

    @property
    def speeds(self) -> list[float] | None:
        """The speeds; times of one run in ms are told as runs per second."""
        times = self.column("latency")
        if "speed" in self.columns or times is None:
            return self.column("speed")
        return [1e3 / time for time in times] if min(times) > 0 else None

    @property
    def unit(self) -> str:
        """What the speeds are."""
        return "tok/s" if "speed" in self.columns else "runs/s"


def read_tables(entries: Sequence[Entry]) -> Iterator[Table]:
    """Yield the tables of numbers in a text: a line of names, then rows of as many numbers."""
    columns: tuple[str, ...] | None = None
    rows: list[tuple[float, ...]] = []
    evidence: list[Evidence] = []
    for entry in entries:
        cells = _cells(entry.text)
        names = tuple(_meaning(cell) for cell in cells)
        if (
            {"speed", "latency", "memory"} & set(names)
            and len(cells) >= 2
            and not any(_NUMBER.match(cell) for cell in cells)
        ):
            if columns is not None and rows:
                yield Table(columns, tuple(rows), tuple(evidence))
            columns, rows, evidence = names, [], list(entry.evidence)
        elif columns is not None and len(cells) == len(columns) and all(_NUMBER.match(cell) for cell in cells):
            rows.append(tuple(float(match["value"]) for cell in cells if (match := _NUMBER.match(cell))))
            evidence += entry.evidence
        elif columns is not None and rows and cells and set("".join(cells)) - set("-:"):
            yield Table(columns, tuple(rows), tuple(evidence))
            columns = None
    if columns is not None and rows:
        yield Table(columns, tuple(rows), tuple(evidence))


def _loose(entries: Sequence[Entry]) -> Iterator[Table]:
    """Yield what lines tell that name their values: "4 threads: 12.5 tok/s", "run 3: 9.1 t/s at 44 C, 1.8 GHz"."""
    parts = [(part, entry) for entry in entries for part in _PART.split(entry.text)]
    for columns in (("threads", "speed"), ("threads", "latency"), ("speed", "heat"), ("speed", "clock")):
        rows: list[tuple[float, ...]] = []
        evidence: list[Evidence] = []
        for part, entry in parts:
            if columns[0] == "threads" and not any(hint in part for hint in _THREAD_HINTS):
                continue
            values = tuple(_named(part, name) for name in columns)
            if None not in values:
                rows.append(tuple(value for value in values if value is not None))
                evidence += entry.evidence
        counts = len({row[0] for row in rows}) if columns[0] == "threads" else 0
        near = counts == len(rows) == 2 and evidence[-1].line - evidence[0].line <= _NEAR
        if near or counts > 2 or (counts == 0 and len(rows) >= _LEAST_ROWS):
            yield Table(columns, tuple(rows), tuple(evidence))


def _named(text: str, name: str) -> float | None:
    told = text[:300]
    if name == "speed" and (decode := _DECODE.search(told)) is not None:
        return float(decode["speed"])
    values = [part for match in _LOOSE[name].finditer(told) for part in match.groups() if part]
    return float(values[0]) if len(values) == 1 else None


def _benched(rows: Sequence[Benched]) -> Iterator[Table]:
    """Yield the decode speeds of ``llm_bench`` rows that differ in their threads alone."""
    tests: dict[tuple[object, ...], list[tuple[float, float, Entry]]] = {}
    for one in rows:
        row, decode = one.row, one.tps("decode")
        if decode is not None and row.threads is not None and one.in_table:
            key = (row.test, row.model, row.backend, row.precision, row.settings)
            tests.setdefault(key, []).append((float(row.threads), decode, one.entry))
    for found in tests.values():
        evidence = tuple(one for _, _, entry in found for one in entry.evidence)
        yield Table(("threads", "speed"), tuple((threads, tps) for threads, tps, _ in found), evidence)


def _cells(text: str) -> list[str]:
    text = text.strip().strip("|")
    sign = next((sign for sign in _SIGNS if sign in text), None)
    return [cell for part in text.split(sign) if (cell := part.strip())]


def _meaning(cell: str) -> str:
    word = cell.lower().strip("()#:*` ")
    whole = next((meaning for meaning, names in _NAMES.items() if word in names), None)
    if whole is not None:
        return whole
    # "decode (tok/s)", "CPU temp in °C": one word of it is enough.
    words = {part for part in re.findall(r"[a-z0-9_/°]+", word) if len(part) > 1}
    order = ("threads", "speed", "heat", "clock", "status", "latency", "memory", "time")
    return next((meaning for meaning in order if words & _NAMES[meaning]), word)


def table_entries(entries: Sequence[Entry], rows: Sequence[Benched]) -> Iterator[Entry]:
    """Yield what the tables of a text show, and its ``rows`` of ``llm_bench``, as lines for rules."""
    for table in (*read_tables(entries), *_loose(entries), *_benched(rows)):
        yield from _cliff(table)
        yield from _decay(table)
        yield from _growth(table)
    yield from _lengths(rows)
    yield from _beyond(entries, rows)


def _beyond(entries: Sequence[Entry], rows: Sequence[Benched]) -> Iterator[Entry]:
    """Yield a decode speed that is far above what a note tells of another tool with the same model."""
    notes = [
        (float(match[1]), entry)
        for entry in entries
        if entry.kind == "note" and (match := _REFERENCE.search(entry.text))
    ]
    if not notes:
        return
    reference, note = min(notes, key=lambda pair: pair[0])
    for one in rows:
        decode = one.tps("decode")
        if decode is not None and decode > _BEYOND * reference > 0:
            text = f"speed: beyond ours={decode:g} theirs={reference:g} times={decode / reference:.0f}"
            yield Entry(text, "table", (*one.entry.evidence, *note.evidence))
            return


def _lengths(rows: Sequence[Benched]) -> Iterator[Entry]:
    """Yield what ``llm_bench`` shows of prefill by the prompt's length, where longer is slower throughout."""
    tests: dict[tuple[object, ...], dict[int, tuple[float, Entry]]] = {}
    for one in rows:
        row, prefill = one.row, one.tps("prefill")
        if prefill is not None and not row.generate_tokens and one.in_table:
            key = (row.model, row.backend, row.threads, row.precision, row.settings)
            tests.setdefault(key, {}).setdefault(row.prompt_tokens, (prefill, one.entry))
    for found in tests.values():
        ordered = [found[length] for length in sorted(found)]
        speeds = [speed for speed, _ in ordered]
        falls = all(later < earlier for earlier, later in itertools.pairwise(speeds))
        if len(speeds) >= _LEAST_LENGTHS and falls and speeds[-1] < _SLOWER * speeds[0]:
            text = f"prefill: longer least={min(found)} most={max(found)} from={speeds[0]:g} to={speeds[-1]:g}"
            yield Entry(text, "table", tuple(line for _, entry in ordered for line in entry.evidence))
            return


def _cliff(table: Table) -> Iterator[Entry]:
    threads, speeds = table.column("threads"), table.speeds
    if threads is None or speeds is None or len(set(threads)) < 2:
        return
    pairs = sorted(zip(threads, speeds, strict=True))
    best_threads, best = max(pairs, key=lambda pair: pair[1])
    for (before, fast), (after, slow) in itertools.pairwise(pairs):
        if len(pairs) > 2 and after > best_threads and slow < _CLIFF * fast:
            text = (
                f"threads: cliff before={before:g} after={after:g} fast={fast:.4g} slow={slow:.4g} "
                f"times={fast / max(slow, 1e-9):.0f} best={best_threads:g} best_speed={best:.4g} unit={table.unit}"
            )
            yield Entry(text, "table", table.evidence)
            return
    last = pairs[-1]
    if last[0] > best_threads and last[1] < 0.8 * best:
        text = (
            f"threads: slower most={last[0]:g} slow={last[1]:.4g} "
            f"best={best_threads:g} best_speed={best:.4g} unit={table.unit}"
        )
        yield Entry(text, "table", table.evidence)


def _growth(table: Table) -> Iterator[Entry]:
    memory, time = table.column("memory"), table.column("time")
    if memory is None or time is None or len(memory) < _LEAST_ROWS or time != sorted(time):
        return
    if memory == sorted(memory) and memory[-1] >= _GROWN * memory[1] > 0:
        text = f"memory: grows first={memory[0]:g} last={memory[-1]:g} runs={len(memory)}"
        yield Entry(text, "table", table.evidence)


def _decay(table: Table) -> Iterator[Entry]:
    speeds, heat, clock = table.speeds, table.column("heat"), table.column("clock")
    time, status = table.column("time"), table.column("status")
    if speeds is None or len(speeds) < _LEAST_ROWS or (heat or clock or time or status) is None:
        return
    if table.column("threads") is not None and len(set(table.column("threads") or ())) > 1:
        return
    first, last = speeds[0], median(speeds[-max(1, len(speeds) // 3) :])
    if first <= 0 or last >= _FALL * first:
        return
    warmer = 0.0 if heat is None else max(heat) - heat[0]
    slower = clock is not None and clock[0] > 0 and min(clock) < 0.9 * clock[0]
    throttled = status is not None and max(status) > status[0] and max(status) <= _WORST_STATUS
    if warmer >= _WARMER_C or slower or throttled:
        clocks = f" clock_from={clock[0]:g} clock_to={clock[-1]:g}" if clock is not None else ""
        degrees = f" heat_from={heat[0]:g} heat_to={max(heat):g}" if heat is not None else ""
        text = f"decay: from={first:.4g} to={speeds[-1]:.4g} left={100 * last / first:.0f}%{degrees}{clocks}"
        yield Entry(text, "table", table.evidence)
    elif time is not None and heat is None and clock is None and time == sorted(time):
        times = first / max(last, 1e-9)
        text = f"series: slower first={first:.4g} last={speeds[-1]:.4g} times={times:.1f} count={len(speeds)}"
        yield Entry(text, "table", table.evidence)
