"""The decision for a tier or for one phone: which configuration, which next, which not and why. Pure.

Order of preference among configurations that are proven to keep the whole SLO:

1. the largest model, by the bytes of its weights;
2. decode speed on the slowest phone; within 3 % of the fastest counts as equally fast;
3. least peak memory on the phone that needed most; unknown is last;
4. least temperature on the phone that got hottest; unknown is last;
5. for what is equal in all of that: fewer threads, then the configuration by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from harness.report.slo import CEILINGS, Missed, unknowns_in_words
from harness.report.text import distinct, listing, plural
from harness.report.tiers_tried import Configuration, ForApps, OnPhone, Standing, Tried

# What a change of speed must be to be one for anybody, as where runs are compared.
EQUALLY_FAST: Final = 0.03
_RUNNERS_UP: Final = 3
_DO_INSTEAD: Final = "use the server, or a simpler feature"

Labels = Mapping[str, str]
_Tried = TypeVar("_Tried", bound=OnPhone)


class Needs(Protocol):
    """What a configuration costs a phone beside time."""

    @property
    def peak_rss_bytes(self) -> int | None:
        """Peak memory of the process."""

    @property
    def max_c(self) -> float | None:
        """The highest temperature."""


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


@dataclass(frozen=True)
class Choice:
    """A configuration with its figures and its phones: ``proven_on`` keep the SLO with it, of ``tried_on``.

    ``met`` are names of promises, ``not_known`` those of which nobody can tell.
    """

    configuration: Configuration
    expected: Expected
    proven_on: tuple[str, ...]
    tried_on: tuple[str, ...]
    apps: ForApps
    warnings: tuple[str, ...] = ()
    not_known: tuple[Missed, ...] = ()
    met: tuple[str, ...] = ()

    @property
    def unknowns(self) -> str:
        """What is not known of it, in words."""
        return unknowns_in_words(self.not_known)


@dataclass(frozen=True)
class RuledOut:
    """A configuration that is not to be used; ``by`` are names of promises, or codes of verdicts."""

    configuration: Configuration
    by: tuple[str, ...]
    because: str


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
    """Return the decision for phones of one tier, by what was tried on them.

    A configuration counts that misses the SLO on no phone and keeps it on more phones than refused it. Phones on which
    something of it is not known speak neither for nor against it. Without ``explain`` what is ruled out is not told.
    """
    proven, open_ones, out = [], [], []
    for configuration, group, verdict in judged(tried):
        behind = [each for each in group if each.standing == verdict]
        if verdict == "meets":
            proven.append(_choice(configuration, behind, group))
        elif verdict == "unknown":
            open_ones.append(_choice(configuration, behind, group))
        elif explain:
            missed = verdict == "misses"
            out.append(
                ruled_out_by_slo(configuration, behind, labels)
                if missed
                else ruled_out_by_refusal(configuration, behind, len(group), labels)
            )
    ranked = _ranked(proven)
    recommended = ranked[0] if ranked else None
    shown = _different(ranked)
    likely = [] if recommended else _ranked(each for each in open_ones if each.met)
    provisional = likely[0] if likely else None
    return Decision(
        recommended,
        "" if recommended else _why_none(provisional, open_ones, tried),
        provisional,
        tuple(shown[1 : 1 + _RUNNERS_UP]),
        len(ranked) - len(shown[: 1 + _RUNNERS_UP]),
        tuple(sorted([*out, *_all_not_known(open_ones, provisional, explain)], key=place_of)),
    )


def judged(tried: Iterable[_Tried]) -> Iterable[tuple[Configuration, list[_Tried], Standing]]:
    """Yield each configuration with what was tried of it and what all phones together say, as for :func:`decide`."""
    groups: dict[Configuration, list[_Tried]] = {}
    for each in tried:
        groups.setdefault(each.configuration, []).append(each)
    for configuration, group in groups.items():
        standings = [each.standing for each in group]
        met, refused = standings.count("meets"), standings.count("refused")
        if "misses" in standings:
            yield configuration, group, "misses"
        elif met > refused:
            yield configuration, group, "meets"
        elif refused and (met or refused >= standings.count("unknown")):
            yield configuration, group, "refused"
        else:
            yield configuration, group, "unknown"


def _choice(configuration: Configuration, behind: Sequence[Tried], group: Sequence[Tried]) -> Choice:
    def worst(pick: Callable[[Iterable[Any]], Any], name: str) -> Any:
        values = [value for each in behind if (value := getattr(each, name)) is not None]
        return pick(values) if values else None

    unsure = [each.apps for each in behind if not each.apps.allowed]
    return Choice(
        configuration,
        Expected(
            worst(max, "ttft_ms"), worst(min, "decode_tps"), worst(min, "sustained_ratio"),
            worst(max, "peak_rss_bytes"), worst(min, "min_available_bytes"), worst(max, "max_c"), worst(min, "golden"),
        ),
        tuple(each.phone_id for each in behind if each.standing == "meets"),
        tuple(each.phone_id for each in group),
        unsure[0] if unsure else ForApps(True),
        tuple(distinct(warning for each in behind for warning in each.warnings)),
        tuple(dict.fromkeys(line for each in behind for line in each.judgement.unknown)),
        tuple(distinct(name for each in behind for name in each.judgement.met)),
    )  # fmt: skip


def _ranked(choices: Iterable[Choice]) -> list[Choice]:
    """Return them in the order of preference."""
    by_size: dict[tuple[int, str], list[Choice]] = {}
    for choice in choices:
        model = (-choice.configuration.weight_bytes, choice.configuration.model_hash)
        by_size.setdefault(model, []).append(choice)
    ranked: list[Choice] = []
    for _, group in sorted(by_size.items()):
        group.sort(key=lambda choice: -(choice.expected.decode_tps_worst_phone or 0.0))
        while group:
            limit = (group[0].expected.decode_tps_worst_phone or 0.0) * (1 - EQUALLY_FAST)
            fast = [choice for choice in group if (choice.expected.decode_tps_worst_phone or 0.0) >= limit]
            ranked += sorted(fast, key=lambda each: frugal(each.configuration, each.expected))
            group = group[len(fast) :]
    return ranked


def frugal(own: Configuration, expected: Needs) -> tuple[float, float, int, tuple[str, ...]]:
    """Return what decides between equally fast configurations: memory, heat, threads, name; unknown is last."""
    peak = math.inf if expected.peak_rss_bytes is None else expected.peak_rss_bytes
    hottest = math.inf if expected.max_c is None else expected.max_c
    name = (own.backend, own.precision, own.memory, own.affinity or "", own.keys, own.engine_version or "", own.runner)
    return peak, hottest, own.threads, name


def _different(ranked: Iterable[Choice]) -> list[Choice]:
    """Return the best of each kind: what differs in threads and cores alone is no other choice."""
    return list({choice.configuration.kind: choice for choice in reversed(list(ranked))}.values())[::-1]


def ruled_out_by_slo(configuration: Configuration, missing: Sequence[OnPhone], labels: Labels) -> RuledOut:
    """Return a configuration ruled out by the promises that it misses."""
    first = missing[0]
    names = distinct(line.name for each in missing for line in each.judgement.missed)
    words = "; ".join(line.words for line in first.judgement.missed)
    return RuledOut(configuration, tuple(names), f"on {labels[first.phone_id]}: {words}{_and_more(missing)}")


def ruled_out_by_refusal(
    configuration: Configuration, refused: Sequence[OnPhone], phones: int, labels: Labels
) -> RuledOut:
    """Return a configuration ruled out by what went wrong with it."""
    codes = distinct(each.code for each in refused)
    first = refused[0]
    share = f"on {len(refused)} of {plural(phones, 'phone')}, " if phones > 1 else "on "
    return RuledOut(configuration, tuple(codes), f"{share}{labels[first.phone_id]}: {first.because}")


def _all_not_known(open_ones: Iterable[Choice], provisional: Choice | None, explain: bool) -> Iterable[RuledOut]:
    left = (each for each in open_ones if explain and each != provisional)
    return (RuledOut(each.configuration, ("not_known",), each.unknowns) for each in left)


def place_of(out: RuledOut) -> tuple[int, str]:
    """Return what is ruled out is sorted by: the largest model first."""
    return -out.configuration.weight_bytes, out.configuration.name


def _and_more(group: Sequence[object]) -> str:
    return f" (and on {plural(len(group) - 1, 'more phone', 'more phones')})" if len(group) > 1 else ""


def _why_none(provisional: Choice | None, open_ones: Sequence[Choice], tried: Sequence[Tried]) -> str:
    if not tried:
        return "no configuration was tried"
    if provisional is not None:
        return (
            f"no configuration is proven to meet the SLO. {provisional.configuration.name} meets what is known of it; "
            f"not known: {provisional.unknowns}"
        )
    if open_ones:
        return f"nothing is proven of what the SLO promises; not known: {open_ones[0].unknowns}"
    closest = closest_of(tried)
    nearest = ""
    if closest is not None:
        words = listing([line.words for line in closest.judgement.missed])
        nearest = f" (closest: {closest.configuration.name}: {words})"
    return f"no configuration met the SLO: {_DO_INSTEAD}{nearest}"


def closest_of(tried: Sequence[_Tried]) -> _Tried | None:
    """Return what misses fewest promises, by the least factor."""
    missing = [each for each in tried if each.standing == "misses"]
    return min(missing, key=lambda each: (len(each.judgement.missed), _factor(each.judgement.missed)), default=None)


def _factor(missed: Iterable[Missed]) -> float:
    """Return by which factor the worst promise is missed."""
    return max(_ratio(line, line.name in CEILINGS) for line in missed)


def _ratio(line: Missed, most: bool) -> float:
    wanted, got = line.wanted, line.got or 0.0
    over, under = (got, wanted) if most else (wanted, got)
    return over / under if under else math.inf
