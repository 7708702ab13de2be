"""``llm_demo`` as a runner: its model folder, its prompt file, and what its stream and its summary tell.

It loads the model once and answers each line of a prompt file. The probe stamps what it streams, which gives the moment
of each token; its summary counts tokens and time over all lines together. Stop tokens are banned while it is timed, so
that every answer is as long as the plan asks. Questions are runs of their own: the tool marks no end of an answer that
its token limit cut off, and takes one limit for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.core.errors import HarnessError
from harness.core.reasons import Reason
from harness.payload.bundle import Bundle
from harness.payload.probe_events import RunLog
from harness.plan.matrix import PlannedCell, questions_of
from harness.plan.model import Plan
from harness.runners.base import MAIN, Order, PromptText, Step, library_env, step_dir
from harness.runners.events import End, Generation, RunnerError, RunnerLog
from harness.runners.lines import Line
from harness.runners.llm_demo import DemoLog, parse_demo
from harness.runners.own_model import CONFIG, FOLDER, own_config, own_links, program_of
from harness.runners.streamed import Part, Streamed, parts_of, read_stream
from harness.runners.tool_log import as_log, hello_of, lines_of, load_of, step_failed, words_of

PROMPTS = "prompts.txt"
_ANSWER = "answer-"
_TEXT_JUDGED = 60

_BY_STAMPS = "decode: by the moments at which the probe read the tokens, sampling included, as farm_runner defines it"
_BY_SUMMARY = (
    "decode: the tool's own mean over all {count} generations, warm-ups too: tokens / (detokenising, writing and "
    "computing), sampling excluded"
)
_REST = (
    "prefill: the tool's mean over all {count} generations, computing alone; TTFT: of the first generation only, from "
    "the flushed line 'prompt file is'; load: without reading the settings"
)


class LlmDemo:
    """MNN's ``llm_demo``."""

    wants_prompt_text = True
    no_cold_start = ""

    def cannot(self, bundle: Bundle, cell: PlannedCell, plan: Plan) -> tuple[Reason, str] | None:
        """It measures burst cells without a history, and takes questions of one line."""
        if cell.tensor:
            return Reason.BUNDLE_MISMATCH, "llm_demo runs language models only: use farm_runner"
        if plan.duration_s is not None:
            return Reason.BAD_PLAN, "llm_demo generates a fixed number of times: use farm_runner for a sustained plan"
        if cell.context_tokens:
            return Reason.BAD_PLAN, "llm_demo takes no history before a prompt: use farm_runner for context_tokens"
        if plan.load_rounds > 1:
            return Reason.BAD_PLAN, "llm_demo loads once: set load_rounds to 1, or use farm_runner"
        return cannot_ask(cell, plan)

    def steps(self, order: Order) -> tuple[Step, ...]:
        """Return the timed run, then one for each question."""
        count = order.plan.warmups + order.plan.repeats
        timed = demo_step(order, MAIN, [prompt_of(order).text] * count, order.cell.generate_tokens)
        return (timed, *answer_steps(order))

    def read(self, order: Order, runs: Mapping[str, RunLog], logs: Mapping[str, bytes] | None = None) -> RunnerLog:
        """Return what the stream and the summary tell."""
        run, log = runs[MAIN], (logs or {}).get(MAIN, b"")
        lines = lines_of(run, log)
        demo = next(iter(parse_demo(lines)[-1:]), DemoLog())
        stream = read_stream(run)
        count = order.plan.warmups + order.plan.repeats
        parts = parts_of(stream, count, order.cell.generate_tokens) if stream.data and count else None
        whole = _is_whole(demo)
        unread = demo.unread
        if whole and parts is None and demo.decode_tokens == count * order.cell.generate_tokens:
            unread += (f"the text cannot be divided into {count} answers: {stream.data[:200]!r}",)
        generations = _generations(order, demo, stream, parts) if demo.summary else ()
        answers = read_answers(order, runs, logs or {}, len(generations))
        timed = any(one.token_ms for one in generations if one.kind == "timed")
        return RunnerLog(
            hello=hello_of(order, "llm_demo", run, log),
            loads=(load_of(order, lines, load_ms=demo.load_ms, tuning_ms=demo.tuning_ms),) if _loaded(demo) else (),
            generations=(*generations, *answers.generations),
            errors=answers.errors if whole else (),
            end=End(status="ok") if whole else None,
            junk=(*_engine_words(stream), *words_of(answers.lines)),
            unread=unread,
            definition=f"{(_BY_STAMPS if timed else _BY_SUMMARY)}; {_REST}".format(count=count),
            tool=_judged(stream, parts, log),
        )


def prompt_of(order: Order) -> PromptText:
    """Return the timed prompt of an order.

    Raises:
        HarnessError: it has none.
    """
    if order.prompt is None:
        raise HarnessError("an order for one of MNN's tools came without its prompt")
    return order.prompt


def cannot_ask(cell: PlannedCell, plan: Plan) -> tuple[Reason, str] | None:
    """Return why a question cannot be put in a prompt file, ``None`` when all can."""
    for ask in questions_of(cell, plan):
        if "\n" in ask.question or ask.question.endswith("\r"):
            return Reason.BAD_PLAN, f"llm_demo takes questions of one line, not {ask.question[:80]!r}"
        if ask.question.startswith("#"):
            return Reason.BAD_PLAN, f"llm_demo skips lines that begin with #, as {ask.question[:80]!r} does"
    return None


def demo_step(order: Order, name: str, prompts: Sequence[str], tokens: int, *, chat: bool = False) -> Step:
    """Return a run of ``llm_demo`` over ``prompts``, with at most ``tokens`` each.

    A ``chat`` applies the model's template and ends where the model ends it; else each has exactly ``tokens``.
    """
    program = program_of(order.bundle, "llm_demo")
    if program is None:
        raise HarnessError(f"bundle {order.bundle.manifest.name} has no llm_demo")
    stops = [] if chat else list(prompt_of(order).stop_tokens)
    files = own_config(order, {"use_template": chat, "banned_tokens": stops})
    files[PROMPTS] = "".join(f"{prompt}\n" for prompt in prompts).encode()
    step = Step(name, (), files, own_links(order), library_env(order))
    folder = step_dir(order.work_dir, step)
    argv = (f"{order.bundle_dir}/{program}", f"{folder}/{FOLDER}/{CONFIG}", f"{folder}/{PROMPTS}", str(tokens))
    return Step(name, argv, step.files, step.links, step.env)


def answer_steps(order: Order) -> tuple[Step, ...]:
    """Return one run for each question."""
    asks = questions_of(order.cell, order.plan)
    return tuple(
        demo_step(order, f"{_ANSWER}{number}", [ask.question], ask.max_tokens, chat=True)
        for number, ask in enumerate(asks, start=1)
    )


@dataclass(frozen=True)
class Said:
    """What runs beside the measured one told, and their lines without the model's words."""

    generations: tuple[Generation, ...]
    errors: tuple[RunnerError, ...]
    lines: Mapping[str, tuple[Line, ...]]


def read_answers(order: Order, runs: Mapping[str, RunLog], logs: Mapping[str, bytes], first_index: int) -> Said:
    """Return the answers of the runs that :func:`answer_steps` made."""
    generations: list[Generation] = []
    errors: list[RunnerError] = []
    lines: dict[str, tuple[Line, ...]] = {}
    for number, ask in enumerate(questions_of(order.cell, order.plan), start=1):
        name = f"{_ANSWER}{number}"
        said, failed, words = read_text(name, runs.get(name), logs.get(name, b""), ask.max_tokens)
        errors += failed
        lines[name] = words
        if said is not None:
            told = {"index": first_index + len(generations), "kind": "answer", "question": ask.question}
            generations.append(said.model_copy(update=told))
        if failed:
            break
    return Said(tuple(generations), tuple(errors), lines)


def read_text(
    name: str, run: RunLog | None, log: bytes, most_tokens: int
) -> tuple[Generation | None, tuple[RunnerError, ...], tuple[Line, ...]]:
    """Return the one text of a run as a ``check``, how the run failed, and its lines without that text."""
    failed = tuple(step_failed(name, run))
    if run is None:
        return None, failed, ()
    stream = read_stream(run)
    words = tuple(Line(text) for text in (*_engine_words(stream), *log.decode("utf-8", "replace").splitlines()))
    demo = next(iter(parse_demo(lines_of(run, log))[-1:]), DemoLog())
    if failed or not _is_whole(demo):
        return None, failed or (RunnerError(stage=name, message=f"llm_demo gave no summary{_last(words)}"),), words
    generated = demo.decode_tokens or 0
    ended = generated < most_tokens
    # A stop token, which counts, is written as a line end.
    data = stream.data.removesuffix(b"\n") if ended else stream.data
    return (
        Generation(
            index=0,
            kind="check",
            prompt_tokens=demo.prompt_tokens or 0,
            generated_tokens=generated,
            finish="eos" if ended else "length",
            text=data.decode("utf-8", "replace"),
        ),
        (),
        words,
    )


def _last(words: Sequence[Line]) -> str:
    said = [line.text.strip() for line in words if line.text.strip()]
    return f"; its last word was {said[-1][:200]!r}" if said else ""


def _loaded(demo: DemoLog) -> bool:
    return demo.load_ms is not None or demo.summary


def _is_whole(demo: DemoLog) -> bool:
    told = (demo.prompt_tokens, demo.decode_tokens, demo.prefill_tps, demo.decode_tps)
    return not demo.unread and all(value is not None for value in told)


def _engine_words(stream: Streamed) -> tuple[str, ...]:
    text = (stream.head + b"\n" + stream.tail).decode("utf-8", "replace")
    return tuple(line for line in text.splitlines() if line.strip())


def _judged(stream: Streamed, parts: Sequence[Part] | None, log: bytes) -> bytes:
    """Return the output with the beginning of one text in place of all of them.

    Equal repeats would look like a loop. Whether the texts are language is judged for all runners by the same rule:
    what a small model repeats when it always takes the likeliest token is no fault of the engine.
    """
    text = (parts[-1].data if parts else stream.data)[:_TEXT_JUDGED]
    return stream.head + text + (b"\n" if log else b"") + as_log(log) + stream.tail


def _generations(order: Order, demo: DemoLog, stream: Streamed, parts: Sequence[Part] | None) -> tuple[Generation, ...]:
    """Return the generations of the timed run; its means stand with the last one, as they are one sample."""
    count = order.plan.warmups + order.plan.repeats
    prompt, generated = _each(demo.prompt_tokens, count), _each(demo.decode_tokens, count)
    found = []
    for index in range(count):
        part = parts[index] if parts is not None else None
        stamps = part.stamps_ns if part is not None else None
        told: dict[str, object] = {}
        if stamps:
            told["first_token_ns"] = stamps[0]
            told["token_ms"] = tuple((after - before) / 1e6 for before, after in pairwise(stamps))
            if index == 0 and stream.submitted_ns is not None:
                told["begun_ns"] = stream.submitted_ns
                told["ttft_ms"] = (stamps[0] - stream.submitted_ns) / 1e6
        elif part is not None and part.span_ns is not None:
            told["decode_ms"] = (part.span_ns[1] - part.span_ns[0]) / 1e6
            told["decode_steps"] = order.cell.generate_tokens - 1
        if index == count - 1:
            told |= _means(demo, prompt, generated, by_tokens=any(p.stamps_ns for p in (parts or ())))
        found.append(
            Generation.model_validate(
                {
                    "index": index,
                    "kind": "warmup" if index < order.plan.warmups else "timed",
                    "prompt_tokens": prompt,
                    "generated_tokens": generated,
                    "finish": "length" if generated == order.cell.generate_tokens else "eos",
                    "text": part.text if part is not None else stream.data.decode("utf-8", "replace"),
                    **told,
                }
            )
        )
    return tuple(found)


def _means(demo: DemoLog, prompt: int, generated: int, *, by_tokens: bool) -> dict[str, object]:
    """Return the tool's own means. Its speeds have more digits than its times."""
    prefill_ms, decode_ms = _ms(prompt, demo.prefill_tps), _ms(generated, demo.decode_tps)
    told: dict[str, object] = {"prefill_ms": prefill_ms}
    told |= {"engine_prefill_ms": prefill_ms, "engine_decode_ms": decode_ms}
    if not by_tokens:
        told |= {"decode_ms": decode_ms, "decode_steps": generated}
    return told


def _each(total: int | None, count: int) -> int:
    """Return one generation's part of a sum; of a sum that does not divide all of it, which no plan asked for."""
    return (total or 0) // count if total is not None and total % count == 0 else total or 0


def _ms(tokens: int, tps: float | None) -> float | None:
    if tps is None:
        return None
    return tokens / tps * 1000 if tps else float("inf")
