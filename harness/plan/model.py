"""The plan: one typed model, from which the TOML check, the pytest options and their help all come."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

Backend = Literal["cpu", "opencl", "vulkan"]
Level = Literal["low", "normal", "high"]
_PLATEAU_MARGIN_C = 5.0


@dataclass(frozen=True)
class Option:
    """Marks a plan field that the command line may override, comma-separated."""

    flag: str


class _Strict(BaseModel):
    # strict: TOML has types, so "4" is no number and true is no 1
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class EngineKeys(_Strict):
    """Further keys of MNN's config.json, each a value or a list to sweep (names as in MNN's LLM documentation)."""

    use_mmap: bool | list[bool] | None = Field(None, description="map weights from the file")
    kvcache_mmap: bool | list[bool] | None = Field(None, description="map the KV cache to a file")
    mmap_size: int | list[int] | None = Field(None, description="size of each mapped file, MB")
    attention_mode: int | list[int] | None = Field(None, description="flash attention x 8 + KV quantisation 0..6")
    dynamic_option: int | list[int] | None = Field(None, description="dynamic quantisation: 0, 1, 2, 8, 9, 10")
    power: Level | list[Level] | None = Field(None, description="which cores: high binds the big ones")
    chunk: int | list[int] | None = Field(None, description="prefill in chunks of so many tokens")
    cpu_sme2_neon_division_ratio: int | list[int] | None = Field(None, description="SME2 share of the work")
    cpu_sme_core_num: int | list[int] | None = Field(None, description="cores that use SME")

    def axes(self) -> dict[str, list[bool | int | str]]:
        """Return the values to sweep for every key that was given."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return {k: (v if isinstance(v, list) else [v]) for k, v in given.items() if v is not None}

    @field_validator("*")
    @classmethod
    def _no_empty_sweep(cls, value: Any) -> Any:
        if value == []:
            raise ValueError("a list to sweep needs at least one value")
        return value


class Cool(_Strict):
    """The cool-down gate before each burst cell: to a temperature, or to a plateau not far above it."""

    below_c: float = Field(38.0, gt=0, description="start only below this many °C")
    timeout_s: float = Field(300.0, gt=0, description="give up after so many seconds and mark the cell hot_start")
    plateau_c_per_min: float | None = Field(
        None, gt=0, description="also start when the temperature no longer changes by more than this a minute"
    )
    plateau_max_c: float | None = Field(
        None, gt=0, description="a plateau above this many °C is still hot (without it: 5 above below_c)"
    )

    @property
    def plateau_limit_c(self) -> float:
        """The highest temperature at which a plateau counts as cool, in °C."""
        return self.below_c + _PLATEAU_MARGIN_C if self.plateau_max_c is None else self.plateau_max_c

    @model_validator(mode="after")
    def _plateau_makes_sense(self) -> Cool:
        if self.plateau_max_c is not None:
            if self.plateau_c_per_min is None:
                raise ValueError("plateau_max_c needs plateau_c_per_min")
            if self.plateau_max_c < self.below_c:
                raise ValueError(f"plateau_max_c is {self.plateau_max_c:g}, less than below_c ({self.below_c:g})")
        return self


class Trip(_Strict):
    """When a run is stopped to protect a hot phone. The limits lie above what phones reach by themselves."""

    skin_c: float = Field(65.0, gt=0, lt=150, description="a skin sensor at this many °C ends the run")
    battery_c: float = Field(60.0, gt=0, lt=150, description="a battery at this many °C ends the run")
    again_below_c: float = Field(42.0, gt=0, lt=150, description="after that, the phone rests until it is below this")
    rest_timeout_s: float = Field(900.0, gt=0, le=86400, description="but no longer than so many seconds")

    @property
    def rest(self) -> Cool:
        """The cool-down gate of the cell after one that was ended for heat."""
        return Cool(below_c=self.again_below_c, timeout_s=self.rest_timeout_s)


class Preparation(_Strict):
    """The state that phones are brought to before their first cell, and back from after the last one.

    The screen is on by default, because that is how an app is used: with it off, phones park their big cores and one
    on no charger sleeps. What is ``false`` or ``"keep"`` is left as the phone has it.
    """

    battery_floor_pct: int = Field(20, ge=0, le=100, description="a phone below this many percent is left out")
    charge_timeout_s: float = Field(
        1800.0, ge=0, le=86400, description="a phone that charges is waited for so many seconds to reach the floor"
    )
    screen: Literal["on", "off", "keep"] = Field("on", description="the screen while cells run")
    stay_awake: bool = Field(True, description="the screen does not go off by time, nor the phone to sleep by that")
    doze_off: bool = Field(True, description="the phone may not doze, deeply or lightly")
    animations_off: bool = Field(False, description="no animations of windows")
    airplane: bool = Field(False, description="airplane mode on (never on a phone that adb reaches over its network)")


class Recovery(_Strict):
    """What is done for a phone that gets lost."""

    wait_s: float = Field(120.0, gt=0, le=86400, description="how long a lost phone may take to come back")
    stall_s: float = Field(15.0, gt=0, le=3600, description="a connection on which nothing comes for so long is broken")
    tries: int = Field(3, ge=0, le=20, description="how often a step is done again")
    reboot: bool = Field(False, description="reboot a phone that is connected and does not answer")
    quarantine: bool = Field(True, description="leave a phone that was given up out of later runs for a while")


class Lab(_Strict):
    """What a whole lab (``mnn-farm lab``) may do with the plan's cells."""

    by: Literal["phone", "model"] = Field(
        "phone",
        description="who may do a lost host's cells: its own phones when they are back, or others of the same model",
    )


Policy = Literal["exact", "prefix", "first", "off"]


class ReferenceRule(_Strict):
    """Another policy for some cells: those that match everything that is given."""

    backend: Backend | None = Field(None, description="the rule is for this backend")
    precision: Level | None = Field(None, description="the rule is for this precision")
    policy: Policy = Field(description="what has to be the same")
    prefix_tokens: int | None = Field(None, ge=1, le=2048, description="for prefix: so many tokens")


class Reference(_Strict):
    """How outputs are compared with those of the same model on this computer, at the same precision.

    Half precision on a phone and whole precision on a PC part ways after some tokens: only a prefix must be the same.
    """

    policy: Policy = Field(
        "prefix", description="what has to be the same: every token, a prefix of them, the first one, or nothing"
    )
    prefix_tokens: int = Field(8, ge=1, le=2048, description="for prefix: so many tokens")
    rules: list[ReferenceRule] = Field(default_factory=list, description="other policies; the first that fits decides")

    def policy_for(self, backend: str, precision: str) -> tuple[Policy, int]:
        """Return the policy of a cell and, for ``prefix``, how many tokens have to be the same."""
        for rule in self.rules:
            if rule.backend in (None, backend) and rule.precision in (None, precision):
                return rule.policy, rule.prefix_tokens or self.prefix_tokens
        return self.policy, self.prefix_tokens


class Roofline(_Strict):
    """The physical limit of decoding: how fast the phone's memory can be read."""

    measure: bool = Field(True, description="measure the phone's memory bandwidth before its first cell")
    slack: float = Field(1.15, ge=1, le=10, description="how far above the measured bandwidth decoding may seem to be")


class Ask(_Strict):
    """A question that every cell answers after its timed generations, so that text stands beside speed."""

    question: str = Field(min_length=1, max_length=4000)
    expect: str = Field(description="regular expression that a right answer contains (case ignored)")
    max_tokens: int = Field(32, ge=1, le=2048)

    @field_validator("expect")
    @classmethod
    def _is_regular_expression(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"it is no regular expression: {error}") from error
        return value


class Golden(_Strict):
    """Questions with known answers that judge a configuration: a fast one that answers wrongly is shown as such."""

    set: str = Field("none", min_length=1, description="a set of profiles/golden, a TOML file, or none")
    tolerance: float = Field(
        0.05,
        ge=0,
        le=1,
        description="a configuration is not recommended when its share of right answers is lower by more",
    )
    ask: list[Ask] = Field(default_factory=list, description="the questions; read from the set when a run begins")


_Count = Annotated[int, Field(ge=1, le=131072)]
_Affinity = Annotated[str, Field(pattern=r"^(any|big|\d+(-\d+)?(,\d+(-\d+)?)*)$")]
Axis = Literal[
    "models", "backends", "threads", "affinity", "precision", "memory", "prompt_tokens", "generate_tokens",
    "context_tokens", "engine",
]  # fmt: skip


class Promised(_Strict):
    """Whether cells are held to what their phone's tier promises (``profiles/tiers.toml``)."""

    judge: bool = Field(
        True, description="an ok cell at the tier's prompt length that misses its SLO fails; false for sweeps"
    )


class Tensor(_Strict):
    """What is particular about a plan of kind ``tensor``: ordinary models, whose outputs are held to a reference."""

    samples: int = Field(4, ge=1, le=1000, description="so many of the model's samples are run, the first by name")
    seed: int = Field(0, ge=0, le=2**63 - 1, description="of the random input of a model that has no samples")
    tolerance: float = Field(
        1e-4, gt=0, lt=1, description="32-bit floats may differ by this × max(1, |reference|) in each element"
    )


# What a language model is asked, and how its text is judged, means nothing to a model of tensors.
_NOT_OF_TENSORS = (
    "prompt_tokens", "generate_tokens", "context_tokens", "ask", "golden", "reference", "engine", "duration_s",
    "repeats_max", "load_rounds",
)  # fmt: skip


class Plan(_Strict):
    """Which cells to run. Every list is an axis of the matrix."""

    schema_: Annotated[Literal[1], Field(alias="schema")] = 1
    kind: Literal["burst", "sustained", "tensor"] = Field(
        "burst",
        description="what is measured: the first seconds on a cool phone, what is left after minutes, or inferences of "
        "models that are no language models",
    )
    models: list[str] = Field(min_length=1, description="model names or folders")
    backends: Annotated[list[Backend], Option("--backends")] = Field(min_length=1, description="what computes")
    threads: Annotated[list[Annotated[int, Field(ge=1, le=64)]], Option("--threads")] = Field(
        min_length=1, description="CPU threads (GPU backends have none and run once)"
    )
    precision: Annotated[list[Level], Option("--precision")] = Field(["low"], min_length=1, description="arithmetic")
    memory: Annotated[list[Level], Option("--memory")] = Field(
        ["low"], min_length=1, description="low quantises activations on the fly"
    )
    prompt_tokens: Annotated[list[_Count], Option("--prompt-tokens")] = Field(
        [64], min_length=1, description="exact prompt lengths"
    )
    generate_tokens: Annotated[list[Annotated[int, Field(ge=2, le=131072)]], Option("--generate-tokens")] = Field(
        [32], min_length=1, description="exact numbers of tokens to generate"
    )
    context_tokens: list[Annotated[int, Field(ge=0, le=131072)]] = Field(
        [0], min_length=1, description="tokens of history before the prompt"
    )
    affinity: list[_Affinity] = Field(
        ["any"], min_length=1, description="the cores a CPU cell may use: any, big (the fast ones) or a list like 4-7"
    )
    warmups: Annotated[int, Option("--warmups")] = Field(1, ge=0, le=100, description="generations not counted")
    repeats: Annotated[int, Option("--repeats")] = Field(5, ge=1, le=1000, description="timed generations a cell")
    repeats_max: int | None = Field(
        None, ge=1, le=1000, description="a cell that spreads more than cv_limit is repeated up to so often"
    )
    duration_s: float | None = Field(
        None, gt=0, le=86400, description="sustained only: generate without a pause for so many seconds"
    )
    load_rounds: int = Field(
        1, ge=1, le=100, description="the model is loaded and unloaded so often, which shows what each round leaks"
    )
    cold_start: bool = Field(
        True, description="the first cell of a configuration is preceded by a start with the model out of all caches"
    )
    runner: Annotated[
        Literal["auto", "farm_runner", "llm_bench", "llm_demo", "modulebasic", "mnnv2basic", "benchmark"],
        Option("--runner"),
    ] = Field("auto", description="the program that runs models: ours, one of MNN's own, or the one the bundle prefers")
    priority: list[Axis] = Field(
        ["backends", "threads"],
        description="axes to cover first: all values of the first one before the next of any other, and so on",
    )
    cv_limit: float | None = Field(None, gt=0, lt=1, description="largest spread (standard deviation ÷ mean) of decode")
    cell_timeout_s: float = Field(600.0, gt=0, le=7 * 86400, description="a cell that takes longer is a hang")
    silence_s: float = Field(300.0, gt=0, le=7 * 86400, description="a cell that prints nothing for so long is a hang")
    engine: EngineKeys = Field(default_factory=EngineKeys)
    cool: Cool | None = None
    trip: Trip = Field(default_factory=Trip)
    prepare: Preparation = Field(default_factory=Preparation)
    reference: Reference = Field(default_factory=Reference)
    golden: Golden = Field(default_factory=Golden)
    roofline: Roofline = Field(default_factory=Roofline)
    recovery: Recovery = Field(default_factory=Recovery)
    slo: Promised = Field(default_factory=Promised)
    lab: Lab = Field(default_factory=Lab)
    tensor: Tensor = Field(default_factory=Tensor, description="of a plan of kind tensor only")
    ask: list[Ask] = Field(default_factory=list, description="questions whose answers are shown beside the speed")

    model_config = ConfigDict(populate_by_name=True)

    @field_validator(
        "models", "backends", "threads", "affinity", "precision", "memory", "prompt_tokens", "generate_tokens",
        "context_tokens",
    )  # fmt: skip
    @classmethod
    def _no_value_twice(cls, value: list[Any]) -> list[Any]:
        for item in value:
            if value.count(item) > 1:
                raise ValueError(f"{item!r} is there twice")
        return value

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Plan:
        self._fits_its_kind()
        if (self.kind == "sustained") != (self.duration_s is not None):
            raise ValueError("a sustained plan needs duration_s, and only a sustained one has it")
        if self.duration_s is not None and self.cell_timeout_s <= self.duration_s:
            raise ValueError(f"cell_timeout_s is {self.cell_timeout_s:g}: it must be longer than duration_s")
        if self.repeats_max is not None and self.cv_limit is None:
            raise ValueError("repeats_max needs cv_limit")
        return self

    def _fits_its_kind(self) -> None:
        given = [name for name in type(self).model_fields if name in self.model_fields_set]
        if self.kind != "tensor":
            if "tensor" in given:
                raise ValueError(f"the table tensor belongs to a plan of kind tensor, and this one is {self.kind}")
            return
        wrong = [name for name in given if name in _NOT_OF_TENSORS]
        if wrong:
            raise ValueError(f"{wrong[0]} means nothing in a plan of kind tensor: leave it out")
        if len(self.memory) > 1:
            raise ValueError("a plan of kind tensor has one value of memory")
        if self.runner in ("llm_bench", "llm_demo"):
            raise ValueError(f"{self.runner} runs language models only: a plan of kind tensor takes farm_runner")

    @model_serializer(mode="wrap")
    def _of_its_kind(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write only what may be read again: a run's head is the plan that goes on."""
        left_out = _NOT_OF_TENSORS if self.kind == "tensor" else ("tensor",)
        return {key: value for key, value in write(self).items() if key not in left_out}

    @property
    def most_repeats(self) -> int:
        """The most timed generations that a burst cell may have."""
        return max(self.repeats, self.repeats_max or 0)


@dataclass(frozen=True)
class PlanOption:
    """One command line option made from a plan field."""

    flag: str
    field: str
    is_list: bool
    numeric: bool
    help: str

    def parse(self, text: str) -> Any:
        """Turn the option's text into what the plan's field takes; what is no number stays text for the check."""
        parts: Iterable[str] = (part.strip() for part in text.split(","))
        values = [int(p) if self.numeric and re.fullmatch(r"[+-]?\d{1,18}", p) else p for p in parts if p]
        return values if self.is_list or len(values) != 1 else values[0]


def plan_options() -> list[PlanOption]:
    """Return the options that override plan fields, in the plan's order."""
    options = []
    for name, info in Plan.model_fields.items():
        for mark in info.metadata:
            if isinstance(mark, Option):
                text = str(info.annotation)
                is_list = text.startswith("list")
                default = info.get_default(call_default_factory=False)
                allowed = re.findall(r"'(\w+)'", text) if "Literal" in text else []
                help_text = f"override the plan's {name}: {info.description}"
                if allowed:
                    help_text += f" ({', '.join(allowed)})"
                if is_list:
                    help_text += ", comma-separated"
                if isinstance(default, (int, list, str)):
                    shown = ",".join(map(str, default)) if isinstance(default, list) else default
                    help_text += f" (plan's default: {shown})"
                options.append(PlanOption(mark.flag, name, is_list, "int" in text, help_text))
    return options
