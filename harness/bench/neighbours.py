"""Whether speeds of one configuration are possible beside each other. Pure.

A prefill reads the weights once for many tokens, a decoded token reads them all: decode is the slower one. A token
costs the weights, which is the same for all, and its context: after twice the context it takes at most twice as long,
and never less.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from harness.bench.evidence import Objection
from harness.bench.figures import Figure
from harness.core.reasons import Reason

# What contexts do not explain: a phone that heats up halves its clocks.
_SLACK = 2.0
# A shorter prompt is hardly a batch, and speeds have some noise.
_BATCH_TOKENS = 32
_NOT_SLOWER = 1.2


def faster_than_prefill(figure: Figure, figures: Sequence[Figure]) -> Objection | None:
    """Return what is said against a decode speed above a prefill speed of the same configuration."""
    if figure.phase != "decode" or figure.value is None:
        return None
    for other in _measured(figure, figures, "prefill"):
        if other.prompt_tokens >= _BATCH_TOKENS and figure.value > (other.value or 0) * _NOT_SLOWER:
            detail = f"decode ({figure.value:g} tok/s) cannot be faster than prefill ({other.value:g} tok/s)"
            return Objection(Reason.IMPLAUSIBLE_SPEED, detail, figure.evidence)
    return None


def impossible_pair(figure: Figure, figures: Sequence[Figure]) -> Objection | None:
    """Return what is said against decode speeds of which two contradict each other: then none of them is believed.

    Rates whose tokens were counted are not doubted for those whose were not.
    """
    if figure.phase != "decode":
        return None
    peers = [other for other in _measured(figure, figures, "decode") if other.counted or not figure.counted]
    for one, two in itertools.combinations(peers, 2):
        if _too_far_apart(one, two):
            detail = (
                f"{one.value:g} tok/s after {one.prompt_tokens} tokens and {two.value:g} tok/s after "
                f"{two.prompt_tokens} are not possible beside each other: generations probably ended early, and "
                f"tokens that never came were counted"
            )
            return Objection(Reason.IMPLAUSIBLE_SPEED, detail, two.evidence)
    return None


def _measured(figure: Figure, figures: Sequence[Figure], phase: str) -> Iterator[Figure]:
    """Yield the figures of one phase and of the same configuration that are numbers at all."""
    for other in figures:
        alike = other.phase == phase and other.group == figure.group
        if alike and other.value is not None and math.isfinite(other.value) and other.value > 0:
            yield other


def _too_far_apart(one: Figure, two: Figure) -> bool:
    short, long = sorted((one, two), key=_context)
    slow, fast = long.value or math.inf, short.value or 0.0
    return slow > fast * _SLACK or fast > slow * _SLACK * _context(long) / _context(short)


def _context(figure: Figure) -> int:
    """Return how many tokens there are at the end of a generation."""
    return max(figure.prompt_tokens + (figure.tokens or 0), 1)
