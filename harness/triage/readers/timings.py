"""Times of one and the same work that differ too much to be of one and the same phone at rest. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev

from harness.triage.entry import Entry

# timeProfile's last line: the same work has the same number of operations.
_PROFILE = re.compile(r"total time : (?P<ms>\d{1,7}\.\d{1,9}) ms, total mflops : (?P<name>\d{1,9}(?:\.\d{1,9})?)")
# A row of MNN's benchmark.
_ROW = re.compile(
    r"\[ ?- ?\]\s(?P<name>\S{1,80})\s{1,40}max =\s{0,8}(?P<most>\d{1,7}\.\d{1,6}) ?ms\s{1,4}"
    r"min =\s{0,8}(?P<least>\d{1,7}\.\d{1,6}) ?ms"
)
# "run 3: 9.1 tok/s": one speed a line, of runs that are numbered.
_RUN = re.compile(
    r"(?i)(?P<name>(?:run|round|iter(?:ation)?|repeat|rep|trial|第)) ?#?\d{1,3}(?: ?[次轮])?\s{0,3}[:=：]\s{0,3}"
    r"(?:decode |speed )?[:=]?\s?(?P<tps>\d{1,4}(?:\.\d{1,4})?) ?(?:tok(?:ens?)?|t)/s\s{0,4}$"
)
_LEAST_RUNS = 4
_LARGEST_CV = 0.25
# So many times the least is the most before a spread is told: less is a phone's ordinary restlessness.
_TIMES = 2.0


def timing_entries(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield, as a line for rules, the first work whose times differ too much."""
    yield from itertools.islice(itertools.chain(_rows(entries), _profiles(entries), _runs(entries)), 1)


def _rows(entries: Sequence[Entry]) -> Iterator[Entry]:
    for entry in entries:
        row = _ROW.search(entry.text[:300])
        if row is not None and float(row["most"]) > _TIMES * float(row["least"]) > 0:
            yield _spread(row["name"], [float(row["least"]), float(row["most"])], [entry])


def _profiles(entries: Sequence[Entry]) -> Iterator[Entry]:
    for name, times in _grouped(_PROFILE, entries).items():
        values = [ms for ms, _ in times]
        if max(values) > _TIMES * min(values) > 0:
            yield _spread(f"a model of {name} mflops", values, [entry for _, entry in times])


def _runs(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield speeds that go up and down; those that only fall are a phone that gets hot, which is told elsewhere."""
    runs = [(float(match["tps"]), entry) for entry in entries if (match := _RUN.search(entry.text[:200]))]
    speeds = [tps for tps, _ in runs]
    rises = any(later > 1.2 * earlier for earlier, later in itertools.pairwise(speeds[1:]))
    if len(speeds) >= _LEAST_RUNS and rises and pstdev(speeds) > _LARGEST_CV * fmean(speeds):
        evidence = tuple(one for _, entry in runs[:6] for one in entry.evidence)
        yield Entry(f"speeds: spread least={min(speeds):g} most={max(speeds):g} runs={len(runs)}", "table", evidence)


def _grouped(regex: re.Pattern[str], entries: Sequence[Entry]) -> dict[str, list[tuple[float, Entry]]]:
    times: dict[str, list[tuple[float, Entry]]] = {}
    for entry in entries:
        match = regex.match(entry.text[:300]) if "ms" in entry.text else None
        if match is not None:
            times.setdefault(match["name"].strip(" :="), []).append((float(match["ms"]), entry))
    return times


def _spread(name: str, values: Sequence[float], entries: Sequence[Entry]) -> Entry:
    least, most = min(values), max(values)
    evidence = tuple(one for entry in entries[:6] for one in entry.evidence)
    text = f"times: spread name=[{name}] least={least:g} most={most:g} times={most / least:.1f}"
    return Entry(text, "table", evidence)
