"""What there is to generate, one after the other."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from farm.language import Model
from farm.talk import Events, StageError


class Work:
    """What there is to generate, one after the other."""

    def __init__(self, options: argparse.Namespace, model: Model) -> None:
        self.options = options
        self.model = model
        # The history is cut from the same text; the prompt goes on where it ends.
        tokens = model.prompt(options.prompt_text, options.context_tokens + options.prompt_tokens)
        self.history, self.prompt = tokens[: options.context_tokens], tokens[options.context_tokens :]
        self.speeds: list[float] = []
        self.first_timed = 0.0

    def do(self, events: Events) -> dict[str, Any] | None:
        """Generate all, event by event, and return what the engine's own loop counts for the timed prompt."""
        for index, (kind, question, limit) in enumerate(self.steps()):
            try:
                made = self.generate(kind, question, limit)
            except StageError as error:
                if error.generation is not None:
                    events.emit("generation", index=index, kind=kind, **error.generation)
                raise
            events.emit("generation", index=index, kind=kind, **made)
        events.stage = "engine_loop"
        wanted = self.speeds and not self.history and self.options.duration_s is None and not self.options.margins
        return self.model.engine_loop(self.prompt, self.options.generate_tokens) if wanted else None

    def steps(self) -> Iterator[tuple[str, str, int]]:
        """Yield kind, question and longest answer; which come after a timed generation depends on it."""
        for _ in range(self.options.warmups):
            yield "warmup", "", 0
        while self.wants_more():
            yield "timed", "", 0
        for question, limit in self.options.ask:
            yield "answer", question, limit or self.options.ask_tokens

    def wants_more(self) -> bool:
        """Whether another timed generation follows."""
        options, done = self.options, len(self.speeds)
        if options.duration_s is not None:
            return not done or time.perf_counter() - self.first_timed < options.duration_s
        if done < options.repeats or options.cv_limit is None:
            return bool(done < options.repeats)
        return bool(done < (options.max_repeats or 0) and spread(self.speeds) > options.cv_limit)

    def generate(self, kind: str, question: str, limit: int) -> dict[str, Any]:
        if kind == "answer":
            return self.model.answer(question, limit)
        made = self.model.timed(self.prompt, self.options.generate_tokens, self.history)
        if kind == "timed":
            self.first_timed = self.first_timed or made["begun_ns"] / 1e9
            span_ms = sum(made["token_ms"])
            self.speeds.append(len(made["token_ms"]) / span_ms if span_ms else 0.0)
        return made


def spread(values: Sequence[float]) -> float:
    """Return standard deviation over mean; 0 below two values."""
    mean = statistics.fmean(values) if values else 0.0
    return statistics.stdev(values) / mean if len(values) > 1 and mean > 0 else 0.0
