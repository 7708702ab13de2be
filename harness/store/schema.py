"""The record of one attempt of a cell: schema 1.

Field names are fixed by the interfaces page. Every ``null`` among what was to be measured carries its reason in
``nulls``, under the field's path below its section (``peak_gpu_bytes``, ``ttft_ms.p90``) or the section's own name
when nothing in it is known (``metrics``). Readers ignore fields they do not know.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from harness.core.reasons import Fault, Reason, Verdict
from harness.store.frozen import Frozen
from harness.store.nulls import unexplained_nulls

SCHEMA = 1


class AdbInfo(Frozen):
    """The adb server through which the phone was reached; ``None`` for a phone that is not on adb."""

    server: str | None
    version: int | None


class PhoneInfo(Frozen):
    """Which phone it was. ``id`` is ours and stays; ``serial`` is a name for people.

    ``ram_bytes`` is what its kernel calls MemTotal; records of older versions do not have it.
    """

    id: str
    serial: str
    name: str
    model: str | None
    soc: str | None
    tier: Literal["high", "mid", "low"]
    fingerprint: str | None
    boot_id: str | None
    context: Literal["shell", "app"] = "shell"
    driver: str | None
    ram_bytes: int | None = None


class ModelInfo(Frozen):
    """Which model folder it was; ``hash`` covers every file in it, ``pinned`` says that it was held against its pin.

    Of a model that came from ONNX only: ``stored`` is how its weights are stored (``fp32``, ``fp16``, ``int8``,
    ``int4``, ``int8-calibrated``) and ``source`` the SHA-256 of the model it was converted from, which its variants
    share.
    """

    name: str
    hash: str
    weight_bytes: int
    quant_bits: int | None
    pinned: bool = False
    stored: str | None = None
    source: str | None = None


class BundleInfo(Frozen):
    """Which device binaries ran."""

    name: str
    hash: str
    engine: str
    engine_version: str | None
    runner: str


EngineValue = bool | int | float | str


class CellConfig(Frozen):
    """Everything that was asked of the engine. Hashed into the cell id, so each field changes what is measured.

    Fields that later versions added (:data:`LATER_CONFIG`) count only where they are not at their default, so that a
    cell keeps its id. Of a ``tensor`` cell ``prompt_hash`` covers its inputs, and the three token counts are 0.
    """

    kind: Literal["burst", "sustained", "tensor"]
    backend: str
    threads: int
    precision: str
    memory: str
    affinity: str | None = None
    engine: dict[str, EngineValue] = Field(default_factory=dict)
    prompt_hash: str
    sampler: Literal["greedy"] = "greedy"
    prompt_tokens: int
    generate_tokens: int
    context_tokens: int
    warmups: int
    repeats: int
    duration_s: float | None = None
    load_rounds: int = 1


LATER_CONFIG: dict[str, Any] = {"duration_s": None, "load_rounds": 1}


class BackendProof(Frozen):
    """What was asked, what ran, and what proves it. Only ``engine`` and ``log`` make an ``ok``."""

    requested: str
    actual: str | None
    strength: Literal["engine", "log", "inferred", "none"]
    proof: str


class Latency(Frozen):
    """Milliseconds; ``p90`` needs 20 samples, ``p99`` (of tensor cells) 200."""

    p50: float
    p90: float | None
    min: float
    max: float
    n: int
    p99: float | None = None


class Speed(Frozen):
    """Tokens per second; ``mad`` is the median absolute deviation, ``cv`` standard deviation over mean."""

    median: float
    mad: float
    cv: float | None
    ci95: tuple[float, float] | None
    n: int


class TokenTimes(Frozen):
    """Milliseconds between tokens, over all timed generations. ``p95`` needs 40 tokens, ``p99`` 200."""

    p50: float
    p95: float | None
    max: float
    p99: float | None = None


class Metrics(Frozen):
    """What was measured. Speeds in tok/s, sizes in bytes, times in ms.

    Of a sustained cell the times and speeds are those of the generations in its last quarter (see ``Thermal``): what is
    left of the phone's speed; all generations stand in ``samples``.

    ``load_cold_ms`` is the first load, with the model's files out of the phone's file cache, ``first_use_ms`` from its
    begin to the first token of the first answer, ``load_ms`` a load with all caches warm. ``baseline_rss_bytes`` is
    what the runner held before it loaded the model, ``growth_bytes`` what each further generation added,
    ``reload_growth_bytes`` each further load, ``gpu_counter`` where ``peak_gpu_bytes`` was read. ``roofline_ratio`` is
    the share of ``bandwidth_gb_per_s`` (10^9 bytes) that decoding reached, ``killed_apps`` how many other apps the
    phone killed for memory meanwhile.

    ``latency_ms`` is that of a tensor cell: from inputs handed to the engine to outputs in the program's memory.
    """

    load_cold_ms: float | None
    tuning_ms: float | None
    load_ms: float | None
    ttft_ms: Latency | None
    prefill_tps: Speed | None
    decode_tps: Speed | None
    token_ms: TokenTimes | None
    peak_rss_bytes: int | None
    peak_anon_bytes: int | None
    peak_swap_bytes: int | None
    peak_gpu_bytes: int | None
    min_available_bytes: int | None
    roofline_ratio: float | None
    battery_drop_pct: float | None
    first_use_ms: float | None = None
    baseline_rss_bytes: int | None = None
    growth_bytes: float | None = None
    reload_growth_bytes: float | None = None
    gpu_counter: str | None = None
    bandwidth_gb_per_s: float | None = None
    killed_apps: int | None = None
    latency_ms: Latency | None = None


class CurvePoint(Frozen):
    """A stretch of a run: its middle in s since the first timed prompt, decode speed, and what the phone was like."""

    t_s: float
    decode_tps: float | None
    celsius: float | None = None
    clock_ratio: float | None = None


class Thermal(Frozen):
    """Temperatures in °C of ``zone``; ``clock_ratio_min`` of the busy cores' lowest cap to their top clock.

    ``status_max`` is the higher of Android's thermal status before and after the run. ``judged_by`` names what
    throttling was judged by, e.g. ``speed, clocks`` or ``speed alone``. Of sustained cells only: ``onset_s`` since the
    first timed prompt; ``burst_tps`` until it, ``sustained_tps`` in the last quarter, both over decode time; ``curve``
    is the run in at most 120 stretches. Every token of any cell, with what the sensors said then, lies in ``raw``.
    """

    start_c: float | None
    max_c: float | None
    zone: str | None
    status_max: int | None
    clock_ratio_min: float | None
    throttled: bool | None
    onset_s: float | None
    burst_tps: float | None
    sustained_tps: float | None
    sustained_ratio: float | None
    plugged: bool | None
    judged_by: str | None = None
    curve: tuple[CurvePoint, ...] = ()


class Answer(Frozen):
    """One question of the plan, what the model said, and whether that matched the expected pattern."""

    question: str
    text: str
    expect: str
    right: bool


class TensorKept(Frozen):
    """One output of a tensor cell against the reference, over all samples (see :mod:`harness.payload.accuracy`).

    ``agreeing`` is the share of elements within ``TensorOutput.tolerance``; errors are absolute; ``same_top1`` is the
    share of samples that decide the same everywhere, ``same_positions`` that of all decisions, where there are any.
    """

    name: str
    shape: tuple[int, ...] | None
    agreeing: float | None
    max_error: float | None
    mean_error: float | None
    cosine_mean: float | None
    cosine_min: float | None
    same_top1: float | None
    same_positions: float | None


class TensorOutput(Frozen):
    """What came out of a tensor cell: ``outputs`` against ``reference``.

    There were ``samples``, of which ``failed`` could not be compared.
    ``held_to`` says in words what was demanded (every element within ``tolerance``, or the accuracy that such weights
    and such a precision keep when nothing is wrong), ``real_inputs`` whether the samples were given or random.
    """

    reference: str
    samples: int
    failed: int
    tolerance: float
    held_to: str
    real_inputs: bool
    outputs: tuple[TensorKept, ...]


class Output(Frozen):
    """What came out. ``text`` is the answer to the plan's first question, else the first timed generation.

    ``match`` is the policy that held against the reference, ``near_tie`` where it held but for a token that the
    reference finds nearly as likely, or ``differs``; ``matched_tokens`` how many tokens are the same from the start on,
    in the timed generation where they are fewest. ``golden`` counts right answers, ``golden_ci95`` is the
    interval of their share, ``golden_set`` names the set of questions and its hash. ``first_logits`` are the largest
    logits of the first timed generation's first token, each with its token id.
    """

    text: str
    token_ids_hash: str | None
    reference: str | None
    match: str | None
    matched_tokens: int | None
    golden: str | None
    timed_text: str = ""
    answers: tuple[Answer, ...] = ()
    golden_ci95: tuple[float, float] | None = None
    golden_set: str | None = None
    first_logits: tuple[tuple[int, float], ...] | None = None
    tensors: TensorOutput | None = None


class Sample(Frozen):
    """One generation, raw. An ``outlier`` is marked and counts all the same; ``rss_bytes`` is held at its end.

    A ``check`` was generated for its text alone, by another program of the same build. An inference of a tensor cell
    has a ``latency_ms`` and no tokens.
    """

    kind: Literal["warmup", "timed", "answer", "check"]
    ttft_ms: float | None
    prefill_ms: float | None
    decode_tps: float | None
    prompt_tokens: int
    generated_tokens: int
    finish: str
    engine_prefill_ms: float | None = None
    engine_decode_ms: float | None = None
    outlier: bool = False
    rss_bytes: int | None = None
    latency_ms: float | None = None


class Finding(Frozen):
    """Something that was noticed and its evidence, e.g. a line of the engine's log.

    One with a ``cause`` comes of the logs of a cell that is not ok: why it went wrong, as triage knows it.
    """

    code: str
    severity: Literal["error", "warning", "info"]
    title: str
    evidence: str = ""
    advice: str = ""
    cause: str = ""


class AbBlock(Frozen):
    """Which turn of an interleaved comparison of two builds (``--ab``) this attempt was; no part of the cell's id.

    ``pair`` is the same for all turns of one cell of the plan on one phone, whichever build ran; ``block`` counts them
    from 0, ``blocks`` says how many there are.
    """

    pair: str
    arm: Literal["A", "B"]
    block: int
    blocks: int


class CellRecord(Frozen):
    """One attempt of one cell; one line of ``results.jsonl``."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    record: Literal["cell"] = "cell"
    run_id: str
    cell_id: str
    attempt: int
    started: str
    elapsed_s: float
    harness_version: str
    adb: AdbInfo
    phone: PhoneInfo
    planned_phone: str | None = None
    model: ModelInfo
    bundle: BundleInfo
    config: CellConfig
    verdict: Verdict
    reason: str | None
    fault: Fault | None
    detail: str = ""
    backend: BackendProof | None
    metrics: Metrics | None
    thermal: Thermal | None
    output: Output | None
    samples: tuple[Sample, ...] = ()
    findings: tuple[Finding, ...] = ()
    nulls: dict[str, str] = Field(default_factory=dict)
    raw: str | None
    ab: AbBlock | None = None

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, populate_by_name=True)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> CellRecord:
        if self.verdict is Verdict.OK:
            if self.reason is not None or self.fault is not None:
                raise ValueError("an ok record has neither reason nor fault")
            if self.backend is None or self.backend.strength not in ("engine", "log"):
                raise ValueError("an ok record needs a backend proven by the engine or its log")
            if not self.backend.actual == self.backend.requested == self.config.backend:
                raise ValueError("an ok record needs the backend that was asked for")
            self._has_its_figures()
        else:
            if self.reason is None or self.fault is None:
                raise ValueError(f"a record with verdict {self.verdict.value} needs reason and fault")
            reason = Reason.from_code(self.reason)
            if (reason.verdict, reason.fault) != (self.verdict, self.fault):
                raise ValueError(f"reason {reason.code} belongs to {reason.verdict.value}/{reason.fault.value}")
        missing = unexplained_nulls(self, self.nulls)
        if missing:
            raise ValueError(f"null without a reason in nulls: {', '.join(missing)}")
        return self

    def _has_its_figures(self) -> None:
        if self.config.kind == "tensor":
            if self.metrics is None or self.metrics.latency_ms is None:
                raise ValueError("an ok record needs its metrics: the latency is missing")
            if self.output is None or self.output.tensors is None:
                raise ValueError("an ok record needs its output compared")
            return
        if self.metrics is None or self.metrics.decode_tps is None:
            raise ValueError("an ok record needs its metrics")
        # MNN's own tools do not tell when a prompt is submitted.
        if self.metrics.ttft_ms is None and self.bundle.runner not in ("llm_bench", "llm_demo"):
            raise ValueError("an ok record needs its metrics: the TTFT is missing")

    @property
    def why(self) -> Reason | None:
        """The reason as the enum's member."""
        return None if self.reason is None else Reason.from_code(self.reason)

    @property
    def final(self) -> bool:
        """Whether resuming leaves the cell alone: it is ``ok``, or the product is at fault, which no new try mends."""
        return self.fault in (None, Fault.PRODUCT)

    @property
    def turn(self) -> tuple[str, int]:
        """What the attempts of a cell have in common: its id, and of two builds that take turns which turn it is."""
        return self.cell_id, 0 if self.ab is None else self.ab.block

    def to_json_line(self) -> bytes:
        """Return the record as one line, with its newline."""
        return self.model_dump_json(by_alias=True).encode() + b"\n"
