"""Whether a cell's figures may be believed: small named rules, each with its evidence.

:func:`judge` asks them in an order in which an earlier one explains the later ones (a crash explains missing tokens).
The first that objects gives the verdict; what the others found is kept beside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from harness.bench.affinity import affinity_held
from harness.bench.backend import backend_was_used
from harness.bench.cold import caches_are_ours
from harness.bench.endings import account_is_complete, ended_by_itself
from harness.bench.engine_log import find_errors, find_link_errors, last_lines
from harness.bench.evidence import Evidence, Objection, Rule
from harness.bench.memory import memory_was_free
from harness.bench.metrics import decode_tps, prefill_tps, speed
from harness.bench.physics import IMPOSSIBLE_STEP_MS, beyond_physics, untold_time, wrong_times
from harness.bench.roofline import decode_is_below_the_roof
from harness.bench.steady import phone_was_steady
from harness.bench.tensor_rules import (
    inferences_were_run,
    inferences_were_told,
    latencies_agree,
    latency_is_above_the_floor,
    latency_is_possible,
    outputs_match_reference,
    outputs_vary,
)
from harness.bench.text_rules import output_is_language, output_matches_reference
from harness.bench.tool_output import tool_output_is_believed
from harness.core.reasons import Reason
from harness.plan.matrix import questions_of

# Times are taken in two processes: a generation's own times may exceed its run's wall time by rounding only.
_CLOCK_SLACK_MS = 50.0
_USAGE = 2
# Less than that is lost among an engine's own buffers.
_FEW_WEIGHTS_BYTES = 16 << 20
_OPENCL_ERROR = re.compile(r"OpenCL (?:[\w ]+ )?error", re.IGNORECASE)


def judge(evidence: Evidence) -> list[Objection]:
    """Return every objection, the one that decides first; empty when the figures may be believed."""
    rules = TENSOR_RULES if evidence.cell.tensor else RULES
    return [objection for rule in rules for objection in rule(evidence)]


def runner_had_no_error(evidence: Evidence) -> Iterator[Objection]:
    """Neither the runner nor the linker reported an error, and the exit code agrees."""
    for error in evidence.told.errors:
        if error.stage == "fallback":
            continue
        reason = {"config": Reason.BAD_PLAN, "load": Reason.LOAD_ERROR}.get(error.stage, Reason.ENGINE_ERROR)
        yield Objection(reason, f"{error.stage}: {error.message}", last_lines(evidence.run.stderr))
    refused = find_link_errors(evidence.run.stderr)
    if refused:
        yield Objection(Reason.LINK_ERROR, refused[0], refused[-1])
    end = evidence.run.end
    if end is not None and end.exit_code and not evidence.told.errors and not refused:
        said = last_lines(evidence.run.stderr)
        # Runners end with 2 before their first word when they do not understand their options: those are ours.
        ours = end.exit_code == _USAGE and evidence.told.hello is None
        reason = Reason.HARNESS_ERROR if ours else Reason.ENGINE_ERROR
        yield Objection(reason, f"the runner ended with exit code {end.exit_code}", said)
    told = evidence.told.end
    if told is not None and told.status != "ok" and not evidence.told.errors:
        yield Objection(
            Reason.ENGINE_ERROR, f"the runner's last word is {told.status!r}", last_lines(evidence.run.stderr)
        )
    for generation in evidence.told.generations:
        if generation.finish == "error" and not evidence.told.errors:
            yield Objection(Reason.ENGINE_ERROR, f"generation {generation.index} ({generation.kind}) ended in an error")
            return


def runner_said_something(evidence: Evidence) -> Iterator[Objection]:
    """A run that ended well left readable events to its end."""
    end = evidence.run.end
    if end is None or end.why != "exit" or end.exit_code != 0:
        return
    if not evidence.run.stdout.strip():
        yield Objection(Reason.SILENT_EXIT, "exit code 0 without a word", last_lines(evidence.run.stderr))
        return
    told = evidence.told
    broken = [line for line in told.junk if line.lstrip().startswith('{"event"')]
    asked = [ask.question for ask in questions_of(evidence.cell, evidence.plan)]
    answered = [said.question for said in told.of_kind("answer")]
    if told.unread:
        yield Objection(Reason.UNPARSED_OUTPUT, "a line looks like a figure and is not understood", told.unread[0])
    elif told.hello is None or told.load is None or told.end is None:
        missing = "hello, load or end is missing in the runner's output"
        yield Objection(Reason.UNPARSED_OUTPUT, missing, _first(told.junk))
    elif broken:
        yield Objection(Reason.UNPARSED_OUTPUT, f"{len(broken)} of the runner's events cannot be read", broken[0][:500])
    elif told_twice_or_unasked(evidence):
        numbers = ", ".join(str(timed.index) for timed in evidence.timed[: evidence.plan.most_repeats + 1])
        yield Objection(
            Reason.UNPARSED_OUTPUT, f"asked were {evidence.plan.most_repeats} timed generations, told were {numbers}"
        )
    elif evidence.timed and evidence.cell.generate_tokens > 1 and not any(map(decode_tps, evidence.timed)):
        yield Objection(Reason.UNPARSED_OUTPUT, "no timed generation tells how long its tokens took")
    elif len(answered) != len(asked) or any(q not in (None, a) for q, a in zip(answered, asked, strict=True)):
        yield Objection(Reason.UNPARSED_OUTPUT, f"the runner answered {answered}, asked were {asked}"[:1000])


def told_twice_or_unasked(evidence: Evidence) -> bool:
    """Whether a timed generation was told twice, or more of them than were asked for."""
    timed, plan = evidence.timed, evidence.plan
    too_many = plan.kind != "sustained" and len(timed) > plan.most_repeats
    return too_many or len({generation.index for generation in timed}) < len(timed)


def ran_as_asked(evidence: Evidence) -> Iterator[Objection]:
    """The runner used the threads, precision and memory mode of the cell, as far as it tells."""
    load, cell = evidence.told.load, evidence.cell
    if load is None:
        return
    pairs = {
        "threads": (load.threads, cell.threads),
        "precision": (load.precision, cell.precision),
        "memory": (load.memory, cell.memory),
    }
    wrong = [f"{key} {told} instead of {asked}" for key, (told, asked) in pairs.items() if told not in (None, asked)]
    if wrong:
        yield Objection(Reason.HARNESS_ERROR, f"the runner used {', '.join(wrong)}")


def engine_reported_no_error(evidence: Evidence) -> Iterator[Objection]:
    """The engine's log holds no error, whatever the exit code was."""
    if evidence.told.errors:
        return
    errors = find_errors(evidence.engine_log)
    if errors:
        gpu = any("CL ERROR" in line or "LLVM ERROR" in line or _OPENCL_ERROR.search(line) for line in errors)
        yield Objection(Reason.GPU_DRIVER_ERROR if gpu else Reason.ENGINE_ERROR, errors[0], "\n".join(errors[:5]))


def weights_were_loaded(evidence: Evidence) -> Iterator[Objection]:
    """A runner on the CPU holds its weights after loading them: engines take half a weight file and say nothing.

    Packed for computing they are at least as large as in the file; half of that leaves room for what is shared. Not
    judged where weights stay in the file (``use_mmap``) or are few.
    """
    first = evidence.told.loads[0] if evidence.told.loads else None
    hello, engine = evidence.told.hello, evidence.cell.engine
    if (
        first is None
        or hello is None
        or hello.engine != "MNN"
        or evidence.cell.backend != "cpu"
        or engine.get("use_mmap")
    ):
        return
    if evidence.weight_bytes < _FEW_WEIGHTS_BYTES:
        return
    if first.rss_bytes is None or first.rss_before_bytes is None:
        yield from _held_at_most(evidence)
        return
    grew = first.rss_bytes - first.rss_before_bytes
    if grew < evidence.weight_bytes / 2:
        yield Objection(
            Reason.LOAD_ERROR,
            f"the runner holds {grew} bytes more after loading {evidence.weight_bytes} bytes of weights",
        )


def _held_at_most(evidence: Evidence) -> Iterator[Objection]:
    """Judge by the peak, where the runner does not tell what it held."""
    end = evidence.run.end
    sampled, kernels = evidence.run.peak("rss_bytes"), end.maxrss_bytes if end is not None else None
    peak = max((value for value in (sampled, kernels) if value is not None), default=None)
    if peak is not None and peak < evidence.weight_bytes / 2:
        yield Objection(
            Reason.LOAD_ERROR, f"the runner never held more than {peak} bytes, with {evidence.weight_bytes} of weights"
        )


def tokens_were_generated(evidence: Evidence) -> Iterator[Objection]:
    """Every repeat is there and generated what was asked: never nominal count over time."""
    cell, load = evidence.cell, evidence.told.load
    if load is None or evidence.told.errors:
        return
    yield from _all_repeats_are_there(evidence)
    for timed in evidence.timed:
        counted = len(timed.token_ids) or timed.generated_tokens
        told = (timed.context_tokens, timed.prompt_tokens, counted, timed.generated_tokens)
        if told != (cell.context_tokens, cell.prompt_tokens, cell.generate_tokens, cell.generate_tokens):
            yield Objection(
                Reason.TOKEN_COUNT_SHORT,
                f"generation {timed.index}: {timed.prompt_tokens} prompt and {counted} generated tokens (claimed: "
                f"{timed.generated_tokens}) after {timed.context_tokens}, asked were {cell.prompt_tokens} and "
                f"{cell.generate_tokens} after {cell.context_tokens} (finish: {timed.finish})",
            )
            return


def _all_repeats_are_there(evidence: Evidence) -> Iterator[Objection]:
    plan, timed = evidence.plan, evidence.timed
    if plan.duration_s is None:
        if len(timed) < plan.repeats:
            yield Objection(Reason.TOKEN_COUNT_SHORT, f"{len(timed)} of {plan.repeats} timed generations")
        return
    wall_s = (evidence.wall_ms or 0.0) / 1000
    if not timed or wall_s < plan.duration_s:
        yield Objection(
            Reason.TOKEN_COUNT_SHORT,
            f"{len(timed)} timed generations in {wall_s:.1f} s, asked were {plan.duration_s:g} s of them",
        )


def speed_is_possible(evidence: Evidence) -> Iterator[Objection]:
    """Times are finite, positive, complete, within the run's wall time, and within physics."""
    for generation in evidence.told.generations:
        by_tool = bool(evidence.told.tool)
        wrong = wrong_times(generation, may_be_untimed=by_tool) or beyond_physics(generation, evidence.weight_bytes)
        if wrong:
            yield Objection(Reason.IMPLAUSIBLE_SPEED, f"generation {generation.index} ({generation.kind}): {wrong}")
            return
    if evidence.told.load is None:
        return
    load_ms = evidence.told.load.load_ms
    if load_ms is not None and (not math.isfinite(load_ms) or load_ms < IMPOSSIBLE_STEP_MS):
        yield Objection(Reason.IMPLAUSIBLE_SPEED, f"loading took {load_ms:g} ms")
        return
    claimed_ms = (load_ms or 0.0) + sum(g.claimed_ms for g in evidence.told.generations if g.kind != "check")
    if evidence.wall_ms is not None and claimed_ms > evidence.wall_ms + _CLOCK_SLACK_MS:
        yield Objection(
            Reason.IMPLAUSIBLE_SPEED,
            f"load and generations claim {claimed_ms:.0f} ms, the whole run took {evidence.wall_ms:.0f} ms",
        )
    untold = untold_time(evidence.run, evidence.told.generations)
    if untold:
        yield Objection(Reason.IMPLAUSIBLE_SPEED, untold)


def repeats_agree(evidence: Evidence) -> Iterator[Objection]:
    """The repeats spread no more than the plan allows."""
    limit = evidence.plan.cv_limit
    if limit is None or evidence.plan.kind == "sustained":
        return
    for name, rate in (("decode", decode_tps), ("prefill", prefill_tps)):
        rates = [value for timed in evidence.timed if (value := rate(timed)) is not None and math.isfinite(value)]
        summary = speed(rates)
        if summary is not None and summary.cv is not None and summary.cv > limit:
            yield Objection(
                Reason.NOISY, f"{name} speed spreads {summary.cv:.1%} over {summary.n} repeats (limit {limit:.1%})"
            )
            return


# What explains later objections comes first, whatever kind of model ran; the phone's own state comes last.
_RUN: tuple[Rule, ...] = (
    ended_by_itself,
    account_is_complete,
    tool_output_is_believed,
    backend_was_used,
    runner_had_no_error,
    engine_reported_no_error,
)
_LOADED: tuple[Rule, ...] = (ran_as_asked, caches_are_ours, weights_were_loaded)
_PHONE: tuple[Rule, ...] = (phone_was_steady, memory_was_free, affinity_held)

RULES: tuple[Rule, ...] = (
    *_RUN,
    runner_said_something,
    *_LOADED,
    tokens_were_generated,
    speed_is_possible,
    decode_is_below_the_roof,
    output_is_language,
    output_matches_reference,
    *_PHONE,
    repeats_agree,
)

# What is particular about language models is replaced: what was said, how long it took, whether it is right.
TENSOR_RULES: tuple[Rule, ...] = (
    *_RUN,
    inferences_were_told,
    *_LOADED,
    inferences_were_run,
    latency_is_possible,
    latency_is_above_the_floor,
    outputs_vary,
    outputs_match_reference,
    *_PHONE,
    latencies_agree,
)


def _first(lines: Sequence[str]) -> str:
    return lines[0][:500] if lines else ""
