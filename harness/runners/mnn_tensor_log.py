"""What processes of ``MNNV2Basic``, ``ModuleBasic`` and ``benchmark`` told, one after another. Pure.

A run that is timed alone is its own average, minimum and maximum, so that each row is a sample and no mean hides a
spread. A row over several runs is no sample: it is unread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.runners.lines import Line
from harness.runners.mnn_tools import ToolLog, parse_tools

# What only the first lines of a process are, by the runner's name.
_BEGINS = {
    "mnnv2basic": re.compile(r"(?:Use extra forward type: \d+|Arguments: model\.MNN .*)\s*"),
    "modulebasic": re.compile(r"(?:Test .+ from input info: .+|Usage: \S*ModuleBasic.*)"),
    "benchmark": re.compile(r"MNN benchmark\s*"),
}
# The line number is that of the source. ``ModuleBasic`` loads in it, ``MNNV2Basic`` makes the session.
_LOADED = {
    "mnnv2basic": re.compile(r"test_main, \d+, cost time: (?P<ms>\d+\.\d+) ms\s*"),
    "modulebasic": re.compile(r"main, \d+, cost time: (?P<ms>\d+\.\d+) ms\s*"),
}
_SESSION = re.compile(r"Session Info: .*backendType is -?\d+\s*")
_OUTPUT = re.compile(r"output: (?P<name>.+)")


@dataclass(frozen=True)
class Process:
    """One process: what it told, how long it took to load in ms, which outputs it named, and how its session came out.

    ``None`` and empty are what it did not tell; ``session`` is the line that names the backend.
    """

    told: ToolLog
    load_ms: float | None = None
    outputs: tuple[str, ...] = ()
    session: str = ""

    @property
    def times_ms(self) -> tuple[float, ...]:
        """The latencies that are of one run each."""
        return tuple(one.avg_ms for one in self.told.latencies if one.min_ms == one.avg_ms == one.max_ms)

    @property
    def unread(self) -> tuple[str, ...]:
        """Lines with figures that are no sample, or could not be read."""
        mixed = [one.line for one in self.told.latencies if not one.min_ms == one.avg_ms == one.max_ms]
        return (*self.told.unread, *mixed)


def read_processes(runner: str, lines: Sequence[Line]) -> tuple[Process, ...]:
    """Read what one process after another printed, of the tool that a runner is named after."""
    return tuple(_read(runner, part) for part in _split(_BEGINS[runner], lines))


def _split(begins: re.Pattern[str], lines: Sequence[Line]) -> Iterator[list[Line]]:
    """Yield the lines of each process; what comes before the first is the first one's."""
    part: list[Line] = []
    begun = False
    for line in lines:
        if begins.fullmatch(line.text):
            if begun:
                yield part
                part = []
            begun = True
        part.append(line)
    if part:
        yield part


def _read(runner: str, lines: Sequence[Line]) -> Process:
    loaded = _LOADED.get(runner)
    texts = [line.text.strip() for line in lines]
    times = [float(match["ms"]) for text in texts if loaded is not None and (match := loaded.fullmatch(text))]
    return Process(
        told=parse_tools(lines),
        load_ms=times[0] if times else None,
        outputs=tuple(match["name"] for text in texts if (match := _OUTPUT.fullmatch(text))),
        session=next((text[:300] for text in texts if _SESSION.fullmatch(text)), ""),
    )
