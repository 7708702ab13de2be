"""How a configuration is chosen among those that were tried, whatever kind of model it runs. Pure.

A configuration counts that misses the SLO on no phone and keeps it on more phones than refused it. Among those the
promised ends decide (how many bytes of weights, how fast within 3 %), then what it costs beside: memory, heat, threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from harness.report.slo import CEILINGS, Missed, unknowns_in_words
from harness.report.text import distinct, listing, plural
from harness.report.tiers_tried import Configuration, ForApps, OnPhone, Standing

# What a change of speed must be to be one for anybody, as where runs are compared.
EQUALLY_FAST: Final = 0.03

Labels = Mapping[str, str]
AnyTried = TypeVar("AnyTried", bound=OnPhone)
_Key = TypeVar("_Key", int, str, tuple[Any, ...])


class Needs(Protocol):
    """What a configuration costs a phone beside time."""

    @property
    def peak_rss_bytes(self) -> int | None:
        """Peak memory of the process."""

    @property
    def max_c(self) -> float | None:
        """The highest temperature."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A configuration and its phones: ``proven_on`` keep the SLO with it, of ``tried_on``.

    ``met`` are names of promises, ``not_known`` those of which nobody can tell.
    """

    configuration: Configuration
    proven_on: tuple[str, ...]
    tried_on: tuple[str, ...]
    apps: ForApps
    not_known: tuple[Missed, ...] = ()
    met: tuple[str, ...] = ()

    @property
    def unknowns(self) -> str:
        """What is not known of it, in words."""
        return unknowns_in_words(self.not_known)


AnyChosen = TypeVar("AnyChosen", bound=Chosen)


@dataclass(frozen=True)
class RuledOut:
    """A configuration that is not to be used; ``by`` are names of promises, or codes of verdicts."""

    configuration: Configuration
    by: tuple[str, ...]
    because: str


@dataclass(frozen=True)
class Weighed(Generic[AnyChosen]):
    """What was tried, by what it proves.

    ``proven`` keep the SLO, best first; ``provisional`` is the best that keeps what is known of it, where none is
    proven; ``because`` is empty where one is.
    """

    proven: tuple[AnyChosen, ...]
    provisional: AnyChosen | None
    ruled_out: tuple[RuledOut, ...]
    because: str

    @property
    def recommended(self) -> AnyChosen | None:
        """The best that is proven."""
        return self.proven[0] if self.proven else None


@dataclass(frozen=True)
class Terms(Generic[AnyTried, AnyChosen]):
    """How one kind of models is chosen.

    Attributes:
        choice: makes a choice of a configuration: from the phones that decided, and all that tried it.
        ranked: returns choices in the order of preference.
        thing: what is chosen, for sentences: ``configuration``.
        instead: what to do when nothing keeps the SLO.
    """

    choice: Callable[[Configuration, Sequence[AnyTried], Sequence[AnyTried]], AnyChosen]
    ranked: Callable[[Iterable[AnyChosen]], list[AnyChosen]]
    thing: str
    instead: str


def weigh(
    tried: Sequence[AnyTried], labels: Labels, terms: Terms[AnyTried, AnyChosen], *, explain: bool = True
) -> Weighed[AnyChosen]:
    """Return what the phones of one tier prove.

    Phones on which something of a configuration is not known speak neither for nor against it. Without ``explain``
    what is ruled out is not told.
    """
    proven, open_ones, out = [], [], []
    for configuration, group, verdict in _judged(tried):
        behind = [each for each in group if each.standing == verdict]
        if verdict == "meets":
            proven.append(terms.choice(configuration, behind, group))
        elif verdict == "unknown":
            open_ones.append(terms.choice(configuration, behind, group))
        elif explain and verdict == "misses":
            out.append(_out_by_slo(configuration, behind, labels))
        elif explain:
            out.append(_out_by_refusal(configuration, behind, len(group), labels))
    likely = [] if proven else terms.ranked(each for each in open_ones if each.met)
    provisional = likely[0] if likely else None
    if explain:
        out += [RuledOut(one.configuration, ("not_known",), one.unknowns) for one in open_ones if one != provisional]
    return Weighed(
        tuple(terms.ranked(proven)),
        provisional,
        tuple(sorted(out, key=lambda one: (-one.configuration.weight_bytes, one.configuration.name))),
        "" if proven else _why_none(provisional, open_ones, tried, terms),
    )


def _judged(tried: Iterable[AnyTried]) -> Iterable[tuple[Configuration, list[AnyTried], Standing]]:
    """Yield each configuration with what was tried of it and what all phones together say."""
    groups: dict[Configuration, list[AnyTried]] = {}
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


def worst(behind: Iterable[OnPhone], pick: Callable[[Iterable[Any]], Any], name: str) -> Any:
    """Return the worst figure of a name among phones; ``None`` where no phone tells it."""
    values = [value for each in behind if (value := getattr(each, name)) is not None]
    return pick(values) if values else None


def phones_of(behind: Sequence[OnPhone], group: Sequence[OnPhone]) -> dict[str, Any]:
    """Return what every :class:`Chosen` tells of its phones: of those that decided, and of all that tried it."""
    unsure = [each.apps for each in behind if not each.apps.allowed]
    return {
        "proven_on": tuple(each.phone_id for each in behind if each.standing == "meets"),
        "tried_on": tuple(each.phone_id for each in group),
        "apps": unsure[0] if unsure else ForApps(True),
        "not_known": tuple(dict.fromkeys(line for each in behind for line in each.judgement.unknown)),
        "met": tuple(distinct(name for each in behind for name in each.judgement.met)),
    }


def in_preference(
    choices: Iterable[AnyChosen],
    size: Callable[[AnyChosen], tuple[int, str]],
    speed: Callable[[AnyChosen], float],
    needs: Callable[[AnyChosen], Needs],
) -> list[AnyChosen]:
    """Return choices by ``size``, least first, then by ``speed``, then by what decides between equally fast ones."""
    by_size: dict[tuple[int, str], list[AnyChosen]] = {}
    for choice in choices:
        by_size.setdefault(size(choice), []).append(choice)
    ranked: list[AnyChosen] = []
    for _, group in sorted(by_size.items(), key=lambda pair: pair[0]):
        group.sort(key=lambda choice: -speed(choice))
        while group:
            limit = speed(group[0]) * (1 - EQUALLY_FAST)
            fast = [choice for choice in group if speed(choice) >= limit]
            ranked += sorted(fast, key=lambda choice: _frugal(choice.configuration, needs(choice)))
            group = group[len(fast) :]
    return ranked


def _frugal(own: Configuration, needs: Needs) -> tuple[float, float, int, tuple[str, ...]]:
    """Return what decides between equally fast configurations: memory, heat, threads, name; unknown is last."""
    peak = math.inf if needs.peak_rss_bytes is None else needs.peak_rss_bytes
    hottest = math.inf if needs.max_c is None else needs.max_c
    name = (own.backend, own.precision, own.memory, own.affinity or "", own.keys, own.engine_version or "", own.runner)
    return peak, hottest, own.threads, name


def best_of_each(ranked: Iterable[AnyChosen], kind: Callable[[AnyChosen], _Key]) -> list[AnyChosen]:
    """Return the first of each kind, in order."""
    return list({kind(choice): choice for choice in reversed(list(ranked))}.values())[::-1]


def _out_by_slo(configuration: Configuration, missing: Sequence[OnPhone], labels: Labels) -> RuledOut:
    first = missing[0]
    names = distinct(line.name for each in missing for line in each.judgement.missed)
    words = "; ".join(line.words for line in first.judgement.missed)
    more = f" (and on {plural(len(missing) - 1, 'more phone', 'more phones')})" if len(missing) > 1 else ""
    return RuledOut(configuration, tuple(names), f"on {labels[first.phone_id]}: {words}{more}")


def _out_by_refusal(configuration: Configuration, refused: Sequence[OnPhone], phones: int, labels: Labels) -> RuledOut:
    codes = distinct(each.code for each in refused)
    first = refused[0]
    share = f"on {len(refused)} of {plural(phones, 'phone')}, " if phones > 1 else "on "
    return RuledOut(configuration, tuple(codes), f"{share}{labels[first.phone_id]}: {first.because}")


def _why_none(
    provisional: AnyChosen | None,
    open_ones: Sequence[AnyChosen],
    tried: Sequence[AnyTried],
    terms: Terms[AnyTried, AnyChosen],
) -> str:
    if not tried:
        return f"no {terms.thing} was tried"
    if provisional is not None:
        return (
            f"no {terms.thing} is proven to meet the SLO. {provisional.configuration.name} meets what is known of it; "
            f"not known: {provisional.unknowns}"
        )
    if open_ones:
        return f"nothing is proven of what the SLO promises; not known: {open_ones[0].unknowns}"
    missing = [each for each in tried if each.standing == "misses"]
    nearest = ""
    if missing:
        closest = min(missing, key=lambda each: (len(each.judgement.missed), _factor(each.judgement.missed)))
        words = listing([line.words for line in closest.judgement.missed])
        nearest = f" (closest: {closest.configuration.name}: {words})"
    return f"no {terms.thing} met the SLO: {terms.instead}{nearest}"


def _factor(missed: Iterable[Missed]) -> float:
    """Return by which factor the worst promise is missed."""
    return max(_ratio(line, line.name in CEILINGS) for line in missed)


def _ratio(line: Missed, most: bool) -> float:
    wanted, got = line.wanted, line.got or 0.0
    over, under = (got, wanted) if most else (wanted, got)
    return over / under if under else math.inf
