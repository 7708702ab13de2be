"""Runner events, read from what a runner printed. The text is untrusted: lines that are no event are counted, kept out.

Fields are those of the architecture page's table; all times in milliseconds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Milliseconds = float
# No context is longer; a count beyond it is no count.
_MOST_TOKENS = 2**31
# No tensor of a phone is larger along one axis, and MNN knows no more axes than eight.
_LARGEST_EXTENT = 2**31
_MOST_AXES = 16


class _Event(BaseModel):
    # NaN and infinity are figures to be judged, not to be refused while reading: validity does that.
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=True)


class Hello(_Event):
    """First words of a runner."""

    runner: str
    engine: str
    engine_version: str | None = None
    abi: str | None = None
    pid: int | None = None


class Load(_Event):
    """The model was loaded; which backend the engine really made, and how that is known."""

    load_ms: Milliseconds | None = None
    backend_requested: str
    backend_actual: str | None = None
    strength: Literal["engine", "log", "inferred", "none"] = "none"
    proof: str = ""
    threads: int | None = None
    precision: str | None = None
    memory: str | None = None
    round: int = 0
    begun_ns: int | None = None
    tuning_ms: Milliseconds | None = None
    rss_before_bytes: int | None = Field(None, ge=0)
    rss_bytes: int | None = Field(None, ge=0)
    cache_before_bytes: int | None = Field(None, ge=0)


class Generation(_Event):
    """One prompt answered. ``token_ms`` has one entry per token after the first: time since the token before.

    Runners of MNN's own tell less: ``prefill_ms`` and ``ttft_ms`` are ``None`` where nothing tells them, and where the
    moment of each token is not known, ``token_ms`` is empty and ``decode_ms`` the time of ``decode_steps`` tokens.

    ``margins``, where asked for, holds for every token the ones that came nearest and how far behind their logits were.
    ``pieces`` are the bytes of the tokens in it and in the margins, in hexadecimal.
    ``first_logits`` are the largest logits of the first token, stop tokens among them. A ``check`` is generated for
    its text alone, by another program of the same build. ``begun_ns`` is when the prompt was submitted, by the clock of
    the probe's samples, ``first_token_ns`` when the first token came, where only that is known; ``rss_bytes`` was held
    at the end.
    """

    index: int
    kind: Literal["warmup", "timed", "answer", "check"]
    prompt_tokens: int = Field(ge=0, le=_MOST_TOKENS)
    generated_tokens: int = Field(ge=0, le=_MOST_TOKENS)
    prefill_ms: Milliseconds | None = None
    ttft_ms: Milliseconds | None = None
    token_ms: tuple[Milliseconds, ...] = ()
    decode_ms: Milliseconds | None = None
    decode_steps: int | None = Field(None, ge=0, le=_MOST_TOKENS)
    sample_ms: Milliseconds | None = None
    finish: str
    token_ids: tuple[int, ...] = ()
    text: str = ""
    question: str | None = None
    margins: tuple[tuple[tuple[int, float], ...], ...] = ()
    pieces: dict[int, str] = Field(default_factory=dict)
    first_logits: tuple[tuple[int, float], ...] = ()
    engine_prefill_ms: Milliseconds | None = None
    engine_decode_ms: Milliseconds | None = None
    begun_ns: int | None = None
    first_token_ns: int | None = None
    rss_bytes: int | None = Field(None, ge=0)
    context_tokens: int = Field(0, ge=0, le=_MOST_TOKENS)

    @property
    def claimed_ms(self) -> Milliseconds:
        """How long it took by what is told of it: to the first token (else its prefill), and the rest."""
        first_ms = self.prefill_ms if self.ttft_ms is None else self.ttft_ms
        return (first_ms or 0.0) + (sum(self.token_ms) if self.token_ms else self.decode_ms or 0.0)

    @property
    def times_ms(self) -> tuple[Milliseconds, ...]:
        """All times that are told."""
        told = (self.prefill_ms, self.ttft_ms, self.decode_ms, *self.token_ms)
        return tuple(value for value in told if value is not None)


class Inference(_Event):
    """One run of an ordinary model on one sample.

    ``latency_ms`` is the time from inputs handed to the engine to outputs in the program's own memory, so that a GPU
    that works on hides nothing. A ``check`` is run for its outputs alone. ``begun_ns`` is when the inputs were handed
    over, by the clock of the probe's samples; ``rss_bytes`` was held at the end.
    """

    index: int
    kind: Literal["warmup", "timed", "check"]
    sample: str
    latency_ms: Milliseconds
    begun_ns: int | None = None
    rss_bytes: int | None = Field(None, ge=0)

    @property
    def claimed_ms(self) -> Milliseconds:
        """How long it took by what is told of it."""
        return self.latency_ms


class TensorFile(_Event):
    """An output of one sample's check run, written raw and little-endian to ``file`` below the folder of outputs.

    All of it is the phone's word: whoever reads the file holds name, type, shape and size against what is wanted.
    """

    sample: str
    name: str
    dtype: str
    shape: tuple[Annotated[int, Field(ge=0, le=_LARGEST_EXTENT)], ...] = Field(max_length=_MOST_AXES)
    file: str


class RunnerError(_Event):
    """The runner says that something failed. Even without a word of why it is an error."""

    stage: str = "unknown"
    message: str = ""


class End(_Event):
    """Last words."""

    status: str
    cache_after_bytes: int | None = Field(None, ge=0)


@dataclass(frozen=True)
class RunnerLog:
    """What a runner told, in order of kind. ``junk`` are lines on its event stream that are no event.

    ``loads`` are all loads of the model, ``load`` is the last, which the generations used. ``unread`` are lines of a
    tool that look like figures and are not understood, ``definition`` says how a tool defines its figures where that
    differs from our runner's, and ``tool`` is what it printed, in the form in which its output is judged. Of a tensor
    cell there are ``inferences`` and ``outputs`` in place of generations.
    """

    hello: Hello | None = None
    loads: tuple[Load, ...] = ()
    generations: tuple[Generation, ...] = ()
    errors: tuple[RunnerError, ...] = ()
    end: End | None = None
    junk: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    definition: str = ""
    tool: bytes = b""
    inferences: tuple[Inference, ...] = ()
    outputs: tuple[TensorFile, ...] = ()

    @property
    def load(self) -> Load | None:
        """The last load."""
        return self.loads[-1] if self.loads else None

    def of_kind(self, kind: str) -> tuple[Generation, ...]:
        """Return the generations of one kind."""
        return tuple(generation for generation in self.generations if generation.kind == kind)


_KINDS: dict[str, type[_Event]] = {
    "hello": Hello,
    "load": Load,
    "generation": Generation,
    "inference": Inference,
    "output": TensorFile,
    "error": RunnerError,
    "end": End,
}

# Our own runner tells these always; an event without them is none.
_NEEDED = {"load": ("load_ms",), "generation": ("prefill_ms", "ttft_ms")}


def parse_runner_output(stdout: bytes) -> RunnerLog:
    """Read everything a runner printed on its event stream."""
    seen: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    junk: list[str] = []
    for line in stdout.split(b"\n"):
        if line.strip():
            event = _parse_line(line)
            if event is None:
                junk.append(line.decode("utf-8", "replace"))
            else:
                seen[event[0]].append(event[1])
    return RunnerLog(
        hello=seen["hello"][0] if seen["hello"] else None,
        loads=tuple(seen["load"]),
        generations=tuple(seen["generation"]),
        errors=tuple(seen["error"]),
        end=seen["end"][-1] if seen["end"] else None,
        junk=tuple(junk),
        inferences=tuple(seen["inference"]),
        outputs=tuple(seen["output"]),
    )


def _parse_line(line: bytes) -> tuple[str, _Event] | None:
    try:
        data = json.loads(line.decode("utf-8"))
        kind = data["event"]
        if any(data.get(name) is None for name in _NEEDED.get(kind, ())):
            return None
        return kind, _KINDS[kind].model_validate(data)
    except (ValueError, KeyError, TypeError, ValidationError, RecursionError):
        return None
