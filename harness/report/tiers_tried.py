"""What was tried on each phone, configuration by configuration, held against the SLO of the phone's tier. Pure.

A configuration is all that an app chooses: model, engine version, backend, threads, cores, precision, memory mode and
engine keys. Its figures come of several cells: latency and speed of the slowest burst cell at the SLO's prompt length,
the sustained ratio of its worst soak at any length, memory of both, the score of whichever cell was asked the golden
set. A cell that the product failed rules it out, whatever its other cells say; with history before the prompt that is a
warning only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename
from typing import Any, Final, Literal, NamedTuple, TypeVar

from harness.core.reasons import Fault, Verdict
from harness.plan.tiers import Slo
from harness.report.recommend import PLANS_QUESTIONS, Candidate, Numerics, choices, engine_keys, numerics_of
from harness.report.slo import Figure, Judgement, comparable, figures_of, golden_figure, judge
from harness.report.text import backend_name, cut, one_line, plural
from harness.store.schema import CellRecord

_DETAIL: Final = 160
# Verdicts of the answers and of where a library lies; others are reason codes of cells.
WRONG_ANSWERS: Final = "wrong_answers"
NOT_FOR_APPS: Final = "not_for_apps"

_Number = TypeVar("_Number", int, float)

Standing = Literal["meets", "misses", "unknown", "refused"]


class Configuration(NamedTuple):
    """What an app chooses. ``keys`` are further engine keys as JSON, ``""`` for none."""

    model: str
    model_hash: str
    weight_bytes: int
    quant_bits: int | None
    backend: str
    threads: int
    precision: str
    memory: str
    affinity: str | None
    keys: str
    engine: str
    engine_version: str | None
    runner: str

    @property
    def name(self) -> str:
        """Return e.g. ``Qwen, CPU low / low, 4 threads``."""
        parts = [self.model, f"{backend_name(self.backend)} {self.precision} / {self.memory}"]
        if self.backend == "cpu":
            parts.append(plural(self.threads, "thread"))
        if self.affinity not in (None, "any"):
            parts.append(f"cores {self.affinity}")
        if self.keys:
            parts.append(", ".join(f"{key} = {json.dumps(value)}" for key, value in json.loads(self.keys).items()))
        return one_line(", ".join(parts))

    @property
    def kind(self) -> tuple[Any, ...]:
        """What sets it apart but for threads and cores."""
        return (self.model_hash, self.backend, self.precision, self.memory, self.keys, self.engine_version, self.runner)


@dataclass(frozen=True)
class ForApps:
    """Whether an app may use what the shell used; ``None`` is unknown. ``because`` is empty where it may."""

    allowed: bool | None
    because: str = ""


@dataclass(frozen=True)
class OnPhone:
    """How one configuration stands on one phone; ``code`` and ``because`` say what refused it, whatever its figures."""

    phone_id: str
    configuration: Configuration
    standing: Standing
    judgement: Judgement
    code: str = ""
    because: str = ""
    apps: ForApps = ForApps(None)


@dataclass(frozen=True)
class Tried(OnPhone):
    """One configuration of a language model on one phone; ``cells`` are ids of the cells that its figures are from."""

    ttft_ms: float | None = None
    decode_tps: float | None = None
    sustained_ratio: float | None = None
    peak_rss_bytes: int | None = None
    min_available_bytes: int | None = None
    max_c: float | None = None
    golden: float | None = None
    warnings: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()


def configuration_of(record: CellRecord) -> Configuration:
    """Return the configuration of a cell."""
    config, model, bundle = record.config, record.model, record.bundle
    return Configuration(
        model.name, model.hash, model.weight_bytes, model.quant_bits, config.backend, config.threads, config.precision,
        config.memory, config.affinity, engine_keys(record), bundle.engine, bundle.engine_version, bundle.runner,
    )  # fmt: skip


def tried(
    records: Iterable[CellRecord],
    slos: Mapping[str, Slo],
    facts: Mapping[str, Mapping[str, Any]],
    tolerance: float,
) -> list[Tried]:
    """Return every configuration on every phone, in the order in which they come among the records.

    Args:
        records: the attempts that count, of real engines.
        slos: by phone id; a phone without one is left out.
        facts: of the run's phones, by id.
        tolerance: how much worse than the best a configuration of a model may answer.
    """
    wanted = [record for record in records if record.phone.id in slos and record.config.kind != "tensor"]
    scored: dict[tuple[str, str, Numerics | None], Candidate] = {
        (choice.phone_id, choice.model_hash, each.numerics): each
        for choice in choices(wanted, tolerance)
        for each in choice.candidates
    }
    groups: dict[tuple[str, Configuration], list[CellRecord]] = {}
    for record in wanted:
        groups.setdefault((record.phone.id, configuration_of(record)), []).append(record)
    return [
        _one(phone, configuration, group, slos[phone], facts.get(phone, {}), _candidate(group[0], scored))
        for (phone, configuration), group in groups.items()
    ]


def _candidate(record: CellRecord, scored: Mapping[tuple[str, str, Numerics | None], Candidate]) -> Candidate | None:
    return scored.get((record.phone.id, record.model.hash, numerics_of(record)))


def _one(
    phone_id: str,
    configuration: Configuration,
    group: Sequence[CellRecord],
    slo: Slo,
    facts: Mapping[str, Any],
    candidate: Candidate | None,
) -> Tried:
    apps = for_apps(configuration.backend, facts, group[0].phone.context)
    plain = [record for record in group if record.config.context_tokens == 0]
    deep = [record for record in group if record.config.context_tokens and record.fault is Fault.PRODUCT]
    warnings = tuple(f"after {record.config.context_tokens} tokens of history: {_said(record)}" for record in deep)
    bursts = [record for record in plain if record.config.kind == "burst" and comparable(record, slo)]
    soaks = [record for record in plain if record.config.kind == "sustained" and record.verdict is Verdict.OK]
    burst = min(bursts, key=_speed, default=None)
    figures = _figures(group, burst, soaks, slo, candidate)
    judgement = judge(figures, slo)
    code, because = refusal(plain, candidate, apps)
    standing = standing_of(judgement, code)
    measured = [*([burst] if burst else []), *soaks]
    metrics = [record.metrics for record in measured if record.metrics is not None]
    hottest = [record.thermal.max_c for record in measured if record.thermal is not None]
    return Tried(
        phone_id, configuration, standing, judgement, code, because,
        ttft_ms=figures["ttft_ms"].value,
        decode_tps=figures["decode_tps"].value,
        sustained_ratio=figures["sustained_ratio"].value,
        peak_rss_bytes=_worst(max, [each.peak_rss_bytes for each in metrics]),
        min_available_bytes=_worst(min, [each.min_available_bytes for each in metrics]),
        max_c=_worst(max, hottest),
        golden=figures["golden"].value,
        apps=apps,
        warnings=warnings,
        cells=tuple(record.cell_id for record in measured),
    )  # fmt: skip


def _figures(
    group: Sequence[CellRecord],
    burst: CellRecord | None,
    soaks: Sequence[CellRecord],
    slo: Slo,
    candidate: Candidate | None,
) -> dict[str, Figure]:
    """Return every figure that something may be promised of: the worst one of those that are known."""
    why = "" if burst is not None else _why_no_burst(group, slo)
    figures = {name: Figure(None, why) for name in ("ttft_ms", "decode_tps", "ram_share_max", "min_available_bytes")}
    if burst is not None:
        figures |= figures_of(burst)
    figures["sustained_ratio"] = Figure(None, "no valid sustained cell: run the plan soak too")
    for soak in soaks:
        own = figures_of(soak)
        figures["sustained_ratio"] = _lower(figures["sustained_ratio"], own["sustained_ratio"])
        figures["min_available_bytes"] = _lower(figures["min_available_bytes"], own["min_available_bytes"])
        figures["ram_share_max"] = _higher(figures["ram_share_max"], own["ram_share_max"])
    score = None if candidate is None else candidate.score
    figures["golden"] = golden_figure(None if score is None or score.of == PLANS_QUESTIONS else score)
    return figures


def _lower(one: Figure, other: Figure) -> Figure:
    known = [figure for figure in (one, other) if figure.value is not None]
    return min(known, key=lambda figure: figure.value or 0.0) if known else other


def _higher(one: Figure, other: Figure) -> Figure:
    known = [figure for figure in (one, other) if figure.value is not None]
    return max(known, key=lambda figure: figure.value or 0.0) if known else one


def _why_no_burst(group: Sequence[CellRecord], slo: Slo) -> str:
    there = [record for record in group if record.config.kind == "burst" and not record.config.context_tokens]
    at_length = [record for record in there if record.config.prompt_tokens == slo.prompt_tokens]
    if not at_length:
        return f"no burst cell of this length: run one with --prompt-tokens {slo.prompt_tokens}"
    return ", ".join(dict.fromkeys(record.reason or "" for record in at_length)) + " there"


def standing_of(judgement: Judgement, code: str) -> Standing:
    """Return how a configuration stands on a phone; ``code`` is that of what refused it."""
    if code:
        return "refused"
    if judgement.missed:
        return "misses"
    return "unknown" if judgement.unknown else "meets"


def refusal(plain: Sequence[CellRecord], candidate: Candidate | None, apps: ForApps) -> tuple[str, str]:
    """Return a code and a sentence for what rules a configuration out on a phone, whatever its figures."""
    refused = next((record for record in plain if record.fault in (Fault.PRODUCT, Fault.CONFIG)), None)
    if refused is not None:
        return refused.reason or "", _said(refused)
    if candidate is not None and candidate.standing == "wrong":
        return WRONG_ANSWERS, candidate.because
    if apps.allowed is False:
        return NOT_FOR_APPS, apps.because
    return "", ""


def _said(record: CellRecord) -> str:
    says = record.why.says if record.why is not None else ""
    detail = cut(one_line(record.detail), _DETAIL)
    return f"{record.reason}: {says}" + (f" ({detail})" if detail else "")


def _speed(record: CellRecord) -> float:
    speed = record.metrics.decode_tps if record.metrics is not None else None
    return 0.0 if speed is None else speed.median


def _worst(pick: Callable[[list[_Number]], _Number], values: Iterable[_Number | None]) -> _Number | None:
    known = [value for value in values if value is not None]
    return pick(known) if known else None


def for_apps(backend: str, facts: Mapping[str, Any], context: str) -> ForApps:
    """Return whether apps may load a backend's library on a phone with these facts.

    A program of the shell's may load any library of the vendor's, an app only those that are listed as public
    (``public.libraries.txt``). Vulkan's loader is public on every phone since Android 7.
    """
    if context == "app" or backend != "opencl":
        return ForApps(True)
    driver, public = facts.get("opencl"), facts.get("opencl_public")
    if not isinstance(driver, str) or not driver or not isinstance(public, (list, tuple)):
        nulls = facts.get("nulls")
        why = nulls.get("opencl_public" if driver else "opencl") if isinstance(nulls, Mapping) else None
        return ForApps(None, one_line(f"whether apps may load OpenCL is not known ({why or 'not told'})"))
    library = basename(driver)
    if library in public:
        return ForApps(True)
    return ForApps(False, one_line(f"apps may not load {library}: the phone does not list it as public"))
