"""The figures in an output of MNN's tools, all in one shape, each with what speaks for or against it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.runners.llm_bench import BenchLog, BenchRow
from harness.runners.llm_demo import DemoLog
from harness.runners.mnn_app import AppSpeed
from harness.runners.mnn_tools import BACKEND_CODES, ToolLog

SPEED, TIME = "tok/s", "ms"


@dataclass(frozen=True)
class Figure:
    """One figure. ``tokens`` is the number of tokens that it was divided by, ``counted`` whether they really came out.

    ``std`` is in the figure's unit. ``label`` is the backend that the tool names beside it (it repeats the option),
    ``made`` the one that the engine says it made. ``group`` is equal for figures of one configuration. ``took_s`` is
    the time that the same output tells, rounded to hundredths; ``limits`` are minimum and maximum of what ``value`` is
    the mean of. ``text`` is what the model wrote, ``None`` where the tool does not show it.
    """

    name: str
    value: float | None
    unit: str
    evidence: str
    phase: str
    std: float | None = None
    prompt_tokens: int = 0
    tokens: int | None = None
    counted: bool = True
    label: str | None = None
    made: str | None = None
    group: tuple[object, ...] = ()
    weight_bytes: int | None = None
    weights_found: bool | None = None
    took_s: float | None = None
    limits: tuple[float, float] | None = None
    text: str | None = None

    @property
    def spread(self) -> float | None:
        """The standard deviation as a share of the mean; ``None`` when one of them is not told."""
        if self.std is None or self.value is None or not math.isfinite(self.value) or self.value <= 0:
            return None
        return self.std / self.value


def bench_figures(log: BenchLog) -> tuple[tuple[Figure, ...], tuple[str, ...]]:
    """Return the figures of ``llm_bench``, and the lines of its JSON file that contradict its table."""
    figures = [figure for row in log.rows for figure in _of_row(row)]
    contradictions = []
    for row in log.json_rows:
        table = [other for other in log.rows if (other.prompt_tokens, other.generate_tokens) == _tokens(row)]
        if not table:
            figures += _of_row(row)
        elif not any(_same(row, other) for other in table):
            contradictions.append(row.line)
    return tuple(figures), tuple(dict.fromkeys(contradictions))


def _tokens(row: BenchRow) -> tuple[int, int]:
    return row.prompt_tokens, row.generate_tokens


def _same(row: BenchRow, printed: BenchRow) -> bool:
    """Whether a row of the JSON file is the one that the table shows with two decimals."""
    pairs = zip(row.speeds, printed.speeds, strict=False)
    return len(row.speeds) == len(printed.speeds) and all(
        json.tps == table.tps or abs(json.tps - table.tps) <= 0.0051 for json, table in pairs
    )


def _of_row(row: BenchRow) -> Iterator[Figure]:
    settings = [
        part for part in (row.backend, f"{row.threads} threads" if row.threads else None, row.precision) if part
    ]
    for speed in row.speeds:
        generated = {"prefill": row.prompt_tokens, "decode": row.generate_tokens}.get(speed.phase)
        yield Figure(
            name=" ".join([*settings, row.test, speed.phase]),
            value=speed.tps,
            unit=SPEED,
            evidence=row.line,
            phase=speed.phase,
            std=speed.std,
            prompt_tokens=row.prompt_tokens,
            tokens=generated if generated is not None else row.prompt_tokens + row.generate_tokens,
            counted=speed.counted,
            label=row.backend,
            group=(row.model, row.backend, row.threads, row.precision, row.settings),
            weight_bytes=row.model_size_bytes,
            weights_found=row.weights_found,
        )


def demo_figures(logs: Sequence[DemoLog]) -> tuple[Figure, ...]:
    """Return the figures of ``llm_demo``: prefill and decode speed of each run."""
    return tuple(figure for number, log in enumerate(logs) for figure in _of_demo(number, log))


def _of_demo(number: int, log: DemoLog) -> Iterator[Figure]:
    phases = (
        ("prefill", log.prefill_tps, log.prompt_tokens, log.prefill_s),
        ("decode", log.decode_tps, log.decode_tokens, log.decode_s),
    )
    for phase, value, tokens, took_s in phases:
        if value is not None:
            yield Figure(
                name=phase if not number else f"run {number + 1} {phase}",
                value=value,
                unit=SPEED,
                evidence=f"{phase} speed = {value:g} tok/s",
                phase=phase,
                prompt_tokens=log.prompt_tokens or 0,
                tokens=tokens,
                counted=tokens is not None,
                group=("llm_demo", number),
                took_s=took_s,
                text=log.text if log.text_seen else None,
            )


def app_figures(speeds: Sequence[AppSpeed]) -> tuple[Figure, ...]:
    """Return the figures of MNN's apps. A prefill's tokens are those of the prompt, also where they are not told."""
    return tuple(
        Figure(
            name=f"app {speed.phase}",
            value=speed.tps,
            unit=SPEED,
            evidence=speed.line,
            phase=speed.phase,
            std=speed.std,
            prompt_tokens=(speed.tokens or 0) if speed.phase == "prefill" else 0,
            tokens=speed.tokens if speed.asked is None else speed.asked,
            counted=speed.tokens is not None,
            group=("app",),
            took_s=speed.took_s,
        )
        for speed in speeds
    )


def tool_figures(log: ToolLog) -> tuple[Figure, ...]:
    """Return the figures of the tools for single models: how long one run took, and whether outputs were equal."""
    made = None if log.backend_type is None else BACKEND_CODES.get(log.backend_type, f"type {log.backend_type}")
    figures = [
        Figure(
            name=f"{latency.name} mean",
            value=latency.avg_ms,
            unit=TIME,
            evidence=latency.line,
            phase="latency",
            label=log.forward_name,
            made=made,
            limits=None if latency.min_ms is None or latency.max_ms is None else (latency.min_ms, latency.max_ms),
        )
        for latency in log.latencies
    ]
    if log.correct is not None and (log.correct or log.differing):
        evidence = log.differing[0] if log.differing else "Correct !"
        figures.append(Figure("outputs equal the CPU's", None, "", evidence, "comparison", made=made))
    return tuple(figures)
