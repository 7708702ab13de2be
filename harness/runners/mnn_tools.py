"""MNN's tools for single models: ``MNNV2Basic``, ``ModuleBasic``, ``timeProfile``, ``benchmark``, ``backendTest`` and
``GetMNNInfo``. What they tell, read from their outputs; pure.

Of these only ``MNNV2Basic`` says which backend the engine really made (``backendType is N``); the others repeat the
number that they were given. Formats: MNN 3.6.1's ``tools/cpp`` and ``benchmark``, outputs in ``tests/data/mnn``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.runners.lines import Line

#: MNNForwardType; 4 takes whatever the phone has, 13 is the CPU's fp16 extension.
BACKEND_CODES = {
    0: "cpu",
    1: "metal",
    2: "cuda",
    3: "opencl",
    4: "auto",
    5: "nnapi",
    6: "opengl",
    7: "vulkan",
    10: "hexagon",
    13: "cpu",
}

_N = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)"
_AVERAGE = re.compile(
    rf"Avg=\s*(?P<avg>{_N}) ms,(?: OpSum =\s*{_N} ms)?,?\s*min=\s*(?P<min>{_N}) ms, max=\s*(?P<max>{_N}) ms\s*"
)
_ROW = re.compile(
    rf"\[ - \]\s+(?P<name>\S.*?)\s+max =\s*(?P<max>{_N}) ms\s+min =\s*(?P<min>{_N}) ms\s+avg =\s*(?P<avg>{_N}) ms\s*"
)
_TOTAL = re.compile(rf"total time\s*:\s*(?P<avg>{_N}) ms, total mflops\s*:\s*(?P<mflops>{_N})\s*")
_LATENCY_LIKE = re.compile(r"Avg=|\[ - \]\s+\S+.*(?:max|avg) =|total time\s*:.*total mflops")
_SESSION = re.compile(
    rf"Session Info: memory use (?P<mb>{_N}) MB, flops is (?P<mflops>{_N}) M, backendType is (?P<code>-?\d+)\s*"
)
_SESSION_LIKE = "Session Info:"
_MEMORY = re.compile(rf"memoryInMB=f (?P<mb>{_N}) in ")
_FORWARD = re.compile(r"(?:Use extra|Test) forward type: (?P<code>\d+)\s*")
_FORWARD_NAME = re.compile(r"Forward type: \**(?P<name>[A-Za-z/]+)\** +thread=")
_VERSION = re.compile(r"Model Version: (?P<version>\S.*?)\s*")
# What ``backendTest`` finds, and what ``ModuleBasic`` does where its folder holds the output to compare with.
_WRONG = re.compile(r"\d+ \[\S*\] (?:Tensor|Op outputs) .* (?:invalid|is error)|Can't compare tensor: ")
_DIFFERS = re.compile(r"TESTERROR (?:name:|.* value error ?:)")
_SAME = re.compile(rf"For (?P<name>.+), max = {_N}, diffmax = (?P<most>{_N}), diff rate = {_N}\s*")
_SETTINGS = (
    re.compile(r"Forward type: \S+ +thread=(?P<threads>\d+) precision=(?P<precision>\d+) "),
    re.compile(r"precision:(?P<precision>\d+), memory: (?P<memory>\d+), Run (?P<loops>\d+) time:\s*"),
    re.compile(r"-+> Benchmarking\.\.\. loop = (?P<loops>\d+), warmup = \d+\s*"),
    re.compile(r"(?P<key>precision|memory)=(?P<value>\d+) in main, \d+\s*"),
)
_WRITTEN = re.compile(r"Write (?P<name>.+) output to (?P<file>output/\d+_\d+\.txt)")
_MISSING = re.compile(r"TESTERROR Can't open (?P<file>.+)|open (?P<folder>.+) failed: .+")
_BENCHMARK = "MNN benchmark"
_USAGE = re.compile(
    r"Arguments: model\.MNN|Usage: \S*(?:ModuleBasic|GetMNNInfo|benchmark|MNNV2Basic|timeProfile|backendTest)"
)


@dataclass(frozen=True)
class Latency:
    """How long one run of a model took, in ms. ``name`` is what was run; ``None`` is what the tool does not tell."""

    name: str
    avg_ms: float
    min_ms: float | None
    max_ms: float | None
    line: str


@dataclass(frozen=True)
class ToolLog:
    """What one of the tools told.

    ``forward_type`` is the MNNForwardType that was asked for, ``forward_name`` its name where only that is printed;
    ``backend_type`` is the one that the engine made. ``correct`` is ``backendTest``'s last word, ``differing`` the
    tensors that it could not compare or found wrong before it, or those that ``ModuleBasic`` found to differ from what
    lay beside its input; ``compared`` those that it compared at all. ``loops``, ``threads``, ``precision`` and
    ``memory`` are what it says it was asked for, the last two as MNN's numbers. ``written`` are outputs and the files
    that it wrote them to, ``missing`` the files that it could not open. ``benchmark`` says that ``benchmark`` began.
    ``version`` is of the model (``GetMNNInfo``). ``unread`` are lines with figures that could not be read.
    """

    forward_type: int | None = None
    forward_name: str | None = None
    backend_type: int | None = None
    memory_mb: float | None = None
    latencies: tuple[Latency, ...] = ()
    correct: bool | None = None
    differing: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()
    loops: int | None = None
    threads: int | None = None
    precision: int | None = None
    memory: int | None = None
    written: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    benchmark: bool = False
    version: str | None = None
    usage: bool = False
    unread: tuple[str, ...] = ()


def parse_tools(lines: Sequence[Line]) -> ToolLog:
    """Read an output; an empty log when nothing in it is of these tools."""
    texts = [line.text.strip() for line in lines if line.comment is None]
    session = _first(_SESSION, texts)
    forward, name = _first(_FORWARD, texts), next((m for text in texts if (m := _FORWARD_NAME.match(text))), None)
    memory = [float(match["mb"]) for text in texts if (match := _MEMORY.match(text))]
    version = _first(_VERSION, texts)
    # "Correct !" ends a pass, also one that compared nothing.
    tested = any(text.startswith("Test forward type") for text in texts)
    differing = [text[:300] for text in texts if _DIFFERS.match(text) or (tested and _WRONG.match(text))]
    settings = _settings(texts)
    return ToolLog(
        forward_type=None if forward is None else int(forward["code"]),
        forward_name=None if name is None or name["name"] == "N/A" else name["name"].lower(),
        backend_type=None if session is None else int(session["code"]),
        memory_mb=float(session["mb"]) if session is not None else max(memory, default=None),
        latencies=tuple(latency for text in texts if (latency := _latency(text)) is not None),
        correct=any(text.startswith("Correct !") for text in texts) if tested else None,
        differing=tuple(dict.fromkeys(differing)),
        compared=tuple(dict.fromkeys(match["name"] for text in texts if (match := _SAME.fullmatch(text)))),
        loops=settings.get("loops"),
        threads=settings.get("threads"),
        precision=settings.get("precision"),
        memory=settings.get("memory"),
        written=tuple((match["name"], match["file"]) for text in texts if (match := _WRITTEN.fullmatch(text))),
        missing=tuple(text[:300] for text in texts if _MISSING.fullmatch(text)),
        benchmark=_BENCHMARK in texts,
        version=None if version is None else version["version"],
        usage=any(_USAGE.match(text) for text in texts),
        unread=tuple(text[:300] for text in texts if _unreadable(text)),
    )


def _settings(texts: Sequence[str]) -> dict[str, int]:
    """Return what the tool repeats of its settings, each as it stands first."""
    found: dict[str, int] = {}
    for text in texts:
        for pattern in _SETTINGS:
            match = pattern.match(text)
            if match is not None:
                told = match.groupdict()
                told = {told["key"]: told["value"]} if "key" in told else told
                found = {**{key: int(value) for key, value in told.items()}, **found}
    return found


def _first(pattern: re.Pattern[str], texts: Sequence[str]) -> re.Match[str] | None:
    return next((match for text in texts if (match := pattern.fullmatch(text))), None)


def _latency(text: str) -> Latency | None:
    match = _AVERAGE.fullmatch(text) or _ROW.fullmatch(text)
    if match is not None:
        row = match.groupdict()
        times = (float(row["avg"]), float(row["min"]), float(row["max"]))
        return Latency(row.get("name") or "run", *times, text[:300])
    total = _TOTAL.fullmatch(text)
    return None if total is None else Latency("sum of operators", float(total["avg"]), None, None, text[:300])


def _unreadable(text: str) -> bool:
    if _LATENCY_LIKE.match(text):
        return _latency(text) is None
    return text.startswith(_SESSION_LIKE) and _SESSION.fullmatch(text) is None
