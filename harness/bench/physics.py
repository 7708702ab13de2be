"""Whether a generation's own times can be true: complete, positive, possible, and as long as the probe saw it take."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from harness.payload.probe_events import RunLog
from harness.runners.events import Generation, Inference

# No phone's memory comes near: LPDDR5X on four channels gives about 85 GB/s, a last-level cache a few hundred.
IMPOSSIBLE_BYTES_PER_S = 1e12
# A weight is multiplied and added for each prompt token; a phone's fastest unit does some tens of 1e12 a second.
IMPOSSIBLE_OPERATIONS_PER_S = 1e14
# One step through an engine takes longer whatever the model: hundreds of operators, each started and waited for.
IMPOSSIBLE_STEP_MS = 0.005
# Between generations a runner resets its engine and turns tokens into text. What is beyond that was not told.
UNEXPLAINED_MS = 1000.0
_TIMED_INFERENCE = re.compile(rb'"event":\s*"inference".*"kind":\s*"(warmup|timed)"')
_GENERATION = re.compile(rb'"event":\s*"generation"')


def wrong_times(generation: Generation, *, may_be_untimed: bool = False) -> str:
    """Return what is wrong with the times of one generation by themselves, ``""`` if nothing.

    ``may_be_untimed``: MNN's own tools tell the times of all their generations together, with one of them.
    """
    wrong = [value for value in generation.times_ms if not math.isfinite(value) or value <= 0]
    ttft_ms, prefill_ms = generation.ttft_ms, generation.prefill_ms
    in_order = ttft_ms is None or prefill_ms is None or ttft_ms >= prefill_ms
    whole = len(generation.token_ms) == generation.generated_tokens - 1
    by_sum = not generation.token_ms and generation.decode_steps is not None
    untold = may_be_untimed and not (generation.token_ms or generation.decode_steps or generation.ttft_ms)
    if not wrong and in_order and (whole or by_sum or untold or generation.kind == "check"):
        return ""
    return (
        f"{len(wrong)} times are not positive and finite; {len(generation.token_ms)} token times for "
        f"{generation.generated_tokens} tokens; TTFT {_ms(ttft_ms)}, prefill {_ms(prefill_ms)}"
    )


def _ms(value: float | None) -> str:
    return "not told" if value is None else f"{value:g} ms"


def beyond_physics(generation: Generation, weight_bytes: int) -> str:
    """Return which step was impossibly fast, ``""`` if none.

    Each step reads all weights; a prefill also computes with each of them, of at most a byte, for each token.
    """
    steps = []
    if generation.prefill_ms is not None:
        steps.append(("prefill", generation.prefill_ms, 2.0 * weight_bytes * generation.prompt_tokens))
    if generation.token_ms:
        steps.append(("a token", sum(generation.token_ms) / len(generation.token_ms), 2.0 * weight_bytes))
    elif generation.decode_ms is not None and generation.decode_steps:
        steps.append(("a token", generation.decode_ms / generation.decode_steps, 2.0 * weight_bytes))
    for what, step_ms, operations in steps:
        read = weight_bytes / step_ms * 1000
        computed = operations / step_ms * 1000
        if step_ms < IMPOSSIBLE_STEP_MS or read > IMPOSSIBLE_BYTES_PER_S or computed > IMPOSSIBLE_OPERATIONS_PER_S:
            return (
                f"{what} in {step_ms:g} ms would read {read / 1e9:.0f} GB of weights and do {computed / 1e12:.1f} "
                f"trillion operations a second"
            )
    return ""


def beyond_memory(tps: float, read_bytes: int, roof_tps: float, gb_per_s: float) -> str:
    """Return how a decode speed exceeds what the phone's memory allows, ``""`` if it does not.

    Args:
        tps: tok/s.
        read_bytes: weights read for each token.
        roof_tps: the highest speed that can be believed.
        gb_per_s: the memory's measured bandwidth.
    """
    if tps <= roof_tps:
        return ""
    reads_gb = tps * read_bytes / 1e9
    return (
        f"decoding at {tps:.1f} tok/s would read {reads_gb:.1f} GB of weights a second; the phone's memory gives "
        f"{gb_per_s:.1f} GB/s, which allows {roof_tps:.1f} tok/s, caches and slack included"
    )


def untold_time(run: RunLog, generations: Sequence[Generation]) -> str:
    """Return how much longer the generations took by the probe's clock than they claim, ``""`` if it fits.

    The probe stamps every chunk of output. From the first ``generation`` event to the last one the runner did nothing
    but generate (before the first, an engine may still tune itself): one that claims half of that time or less, or
    milliseconds that are seconds, is not believed.
    """
    return _untold(run, _GENERATION, [generation.claimed_ms for generation in generations], "generations")


def untold_inference_time(run: RunLog, inferences: Sequence[Inference]) -> str:
    """Return the same of inferences. Those that are timed follow one another; a check is sized and written besides."""
    timed = [one for one in inferences if one.kind != "check"]
    return _untold(run, _TIMED_INFERENCE, [one.claimed_ms for one in timed], "inferences")


def _untold(run: RunLog, mark: re.Pattern[bytes], told_ms: Sequence[float], what: str) -> str:
    stamps_ns = [mono_ns for mono_ns, line in run.stamped_lines() if mark.search(line)]
    if not stamps_ns:
        return ""
    took_ms = (stamps_ns[-1] - stamps_ns[0]) / 1e6
    claimed_ms = sum(told_ms[1:])
    if took_ms - claimed_ms <= max(UNEXPLAINED_MS, claimed_ms):
        return ""
    return f"all {what} but the first claim {claimed_ms:.0f} ms; by the probe's clock they took {took_ms:.0f} ms"
