"""The decision for a tier or for one phone: which configuration, which next, which not and why. Pure.

Order of preference among configurations that are proven to keep the whole SLO:

1. the largest model, by the bytes of its weights;
2. decode speed on the slowest phone; within 3 % of the fastest counts as equally fast;
3. least peak memory on the phone that needed most; unknown is last;
4. least temperature on the phone that got hottest; unknown is last;
5. for what is equal in all of that: fewer threads, then the configuration by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.report.choosing import (
    Chosen,
    Labels,
    RuledOut,
    Terms,
    best_of_each,
    in_preference,
    phones_of,
    weigh,
    worst,
)
from harness.report.text import distinct
from harness.report.tiers_tried import Configuration, Tried

_RUNNERS_UP: Final = 3


@dataclass(frozen=True)
class Expected:
    """What to expect of a configuration: of each figure the worst among the phones that keep the SLO with it."""

    ttft_ms_worst_phone: float | None
    decode_tps_worst_phone: float | None
    sustained_ratio: float | None
    peak_rss_bytes: int | None
    min_available_bytes: int | None
    max_c: float | None
    golden: float | None


@dataclass(frozen=True, kw_only=True)
class Choice(Chosen):
    """A configuration of a language model with its figures."""

    expected: Expected
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """What to use. Without ``recommended``, ``because`` says why and what to do instead.

    ``provisional`` keeps all of the SLO that is known; ``others`` is how many more would do and are not listed.
    """

    recommended: Choice | None
    because: str
    provisional: Choice | None
    runners_up: tuple[Choice, ...]
    others: int
    ruled_out: tuple[RuledOut, ...]


def decide(tried: Sequence[Tried], labels: Labels, *, explain: bool = True) -> Decision:
    """Return the decision for phones of one tier, by what was tried on them (:func:`harness.report.choosing.weigh`)."""
    weighed = weigh(tried, labels, _TERMS, explain=explain)
    # What differs in threads and cores alone is no other choice.
    shown = best_of_each(weighed.proven, lambda choice: choice.configuration.kind)
    return Decision(
        weighed.recommended,
        weighed.because,
        weighed.provisional,
        tuple(shown[1 : 1 + _RUNNERS_UP]),
        len(weighed.proven) - len(shown[: 1 + _RUNNERS_UP]),
        weighed.ruled_out,
    )


def _choice(configuration: Configuration, behind: Sequence[Tried], group: Sequence[Tried]) -> Choice:
    return Choice(
        configuration=configuration,
        expected=Expected(
            ttft_ms_worst_phone=worst(behind, max, "ttft_ms"),
            decode_tps_worst_phone=worst(behind, min, "decode_tps"),
            sustained_ratio=worst(behind, min, "sustained_ratio"),
            peak_rss_bytes=worst(behind, max, "peak_rss_bytes"),
            min_available_bytes=worst(behind, min, "min_available_bytes"),
            max_c=worst(behind, max, "max_c"),
            golden=worst(behind, min, "golden"),
        ),
        warnings=tuple(distinct(warning for each in behind for warning in each.warnings)),
        **phones_of(behind, group),
    )


def _ranked(choices: Iterable[Choice]) -> list[Choice]:
    return in_preference(
        choices,
        size=lambda choice: (-choice.configuration.weight_bytes, choice.configuration.model_hash),
        speed=lambda choice: choice.expected.decode_tps_worst_phone or 0.0,
        needs=lambda choice: choice.expected,
    )


_TERMS: Final = Terms(_choice, _ranked, "configuration", "use the server, or a simpler feature")
