"""From words to phones that are ready: providers, adb's lists, who is connected, and who is left out and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from harness.adb.server import AdbServer
from harness.bench.leave import leave_as_found
from harness.bench.phone import ConnectedPhone, Terms, claim
from harness.core.errors import FarmError
from harness.core.ids import utc_now
from harness.core.provider import Endpoint, Provider, load_provider
from harness.fleet.choose import (
    Listed,
    Traits,
    check_filters,
    check_names,
    describe,
    traits_of_listed,
    traits_of_provided,
    unwanted_by,
    wanted,
)
from harness.fleet.meeting import meet_phone
from harness.fleet.same import Connection, second_connections
from harness.fleet.servers import Listing, list_phones
from harness.fleet.states import EXCLUDED, SAME_PHONE, Why, why_error, why_held, why_state
from harness.fleet.taking import side_by_side, take_all
from harness.fleet.words import Words
from harness.phone.health import HealthStore
from harness.plan.tiers import TierRules, load_tier_rules
from harness.store.head import LeftOut

Say = Callable[[str, str], None]
# Endpoint, rules, where to say what is done, terms: looks at a phone without taking it.
Meet = Callable[[Endpoint, TierRules, Callable[[str], None], Terms], "ConnectedPhone | Why"]
# Takes a phone that was looked at.
Claim = Callable[[ConnectedPhone, Callable[[str], None], Terms], ConnectedPhone]


@dataclass
class Fleet:
    """The phones of a run. ``close`` leaves them as they were found and takes provided ones down."""

    phones: list[ConnectedPhone] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    providers: list[Provider] = field(default_factory=list)

    @property
    def unusable(self) -> list[LeftOut]:
        """Those that were left out against the user's will: chosen, and not usable."""
        return [left for left in self.left_out if left.code not in (EXCLUDED, SAME_PHONE)]

    def close(self) -> None:
        """Leave phones as they were found, take provided ones down; harmless twice."""
        phones, self.phones = self.phones, []
        side_by_side(lambda phone: leave_as_found(phone, lambda _: None), phones)
        while self.providers:
            self.providers.pop().stop()


def open_fleet(
    words: Words,
    say: Say,
    *,
    servers: Sequence[AdbServer] = (),
    health: HealthStore | None = None,
    terms: Terms | None = None,
    meet: Meet = meet_phone,
    claim: Claim = claim,
) -> Fleet:
    """Start providers, list adb's phones, and make every chosen phone ready, side by side.

    Args:
        words: of ``--devices``.
        say: told (phone, what is being done).
        servers: of ``--adb``; empty means the default one.
        health: who is held; the user's own if not given.
        terms: on what terms phones are connected; without a purpose they are only looked at.
        meet: how a phone is looked at.
        claim: how a phone is taken.

    Raises:
        ConfigError: a name that nobody has.
        HostError: no adb, no sandbox, a port in use.
    """
    fleet = Fleet()
    try:
        listing = list_phones(servers) if words.wanted else Listing(())
        provided: list[Endpoint] = []
        for prefix, rest in words.provided.items():
            provider = load_provider(prefix)
            fleet.providers.append(provider)
            provided += provider.start(list(rest))
        fleet.left_out += [why.left_out(name) for name, why in listing.silent]
        opening = _Opening(words, say, fleet, health or HealthStore(), terms or Terms(), meet, claim)
        opening.open(listing.phones, provided)
    except BaseException:
        fleet.close()
        raise
    return fleet


@dataclass(frozen=True)
class _Candidate:
    """A phone that may take part: ``phone`` once it is connected, ``why`` if something speaks against it."""

    traits: Traits
    endpoint: Endpoint
    why: Why | None = None
    phone: ConnectedPhone | None = None


class _Opening:
    """Phones are only looked at until it is known which take part: a phone that has two connections would else be
    found in use by ourselves, and one that is not meant would be taken from somebody."""

    def __init__(
        self, words: Words, say: Say, fleet: Fleet, health: HealthStore, terms: Terms, meet: Meet, claim: Claim
    ) -> None:
        self._words = words
        self._say = say
        self._fleet = fleet
        self._health = health
        self._terms = terms
        self._meet, self._claim = meet, claim
        self._rules = load_tier_rules()

    def open(self, listed: Sequence[Listed], provided: Sequence[Endpoint]) -> None:
        """Sort all that there is into the fleet's phones and those left out."""
        there = [
            *(_Candidate(traits_of_listed(one), one.endpoint, why_state(one.info.state)) for one in listed),
            *(_Candidate(traits_of_provided(endpoint), endpoint) for endpoint in provided),
        ]
        shown = [*map(describe, listed), *(endpoint.name for endpoint in provided)]
        check_names(self._words, [one.traits for one in there], shown)
        met = side_by_side(
            self._look, [one for one in there if self._chosen(one) is not False and not self._excluded(one)]
        )
        seen = {one.endpoint.name: one.traits for one in met}
        check_filters(self._words, [seen.get(one.traits.name, one.traits) for one in there], shown)
        kept = self._without_second_connections(one for one in met if self._chosen(one) is not False)
        order = {one.traits.name: number for number, one in enumerate(kept)}
        for one in kept:
            if one.why is not None:
                self._leave_out(one, one.why)
        self._take_all([one for one in kept if one.why is None])
        self._fleet.phones.sort(key=lambda phone: order[phone.name])

    def _chosen(self, one: _Candidate) -> bool | None:
        return wanted(self._words.wanted, one.traits) if one.traits.from_adb else True

    def _excluded(self, one: _Candidate) -> bool:
        """Note a phone that a ``not:`` word leaves out."""
        word = unwanted_by(self._words, one.traits)
        if word is not None:
            self._leave_out(one, Why(EXCLUDED, f"not:{word} leaves it out"))
        return word is not None

    def _leave_out(self, one: _Candidate, why: Why) -> None:
        self._fleet.left_out.append(why.left_out(one.traits.name))

    def _look(self, one: _Candidate) -> _Candidate:
        """Connect a phone against which nothing speaks, without taking it."""
        met = self._met(one)
        if met.phone is None:
            return met
        hold = self._health.held(met.phone.identity.id, utc_now())
        traits = one.traits.with_facts(met.phone.facts, met.phone.tier)
        return replace(met, traits=traits, why=None if hold is None else why_held(hold, one.endpoint.name))

    def _take_all(self, free: Sequence[_Candidate]) -> None:
        phones = [one.phone for one in free if one.phone is not None]
        if not self._terms.purpose:
            self._fleet.phones += phones
            return
        for name, answer in take_all(phones, self._take, self._give_back, self._terms.wait_lease_s).items():
            if isinstance(answer, Why):
                self._fleet.left_out.append(answer.left_out(name))

    def _take(self, phone: ConnectedPhone, wait_s: float) -> ConnectedPhone | Why:
        """Take a phone that takes part; from now on it is the fleet's, whatever becomes of the others."""
        terms = replace(self._terms, wait_lease_s=wait_s)
        try:
            taken = self._claim(phone, lambda what: self._say(phone.name, what), terms)
        except FarmError as error:
            return why_error(error, phone.name)
        self._fleet.phones.append(taken)
        return taken

    def _give_back(self, taken: ConnectedPhone) -> None:
        """Let others have a phone meanwhile."""
        self._fleet.phones = [phone for phone in self._fleet.phones if phone is not taken]
        leave_as_found(taken, lambda _: None)

    def _met(self, one: _Candidate) -> _Candidate:
        if one.why is not None:
            return one
        name = one.endpoint.name
        try:
            phone = self._meet(one.endpoint, self._rules, lambda what: self._say(name, what), self._terms)
        except FarmError as error:
            phone = why_error(error, name)
        return replace(one, why=phone, phone=None) if isinstance(phone, Why) else replace(one, phone=phone)

    def _without_second_connections(self, met: Iterable[_Candidate]) -> list[_Candidate]:
        kept = [one for one in met if not self._excluded(one)]
        second = second_connections(
            [
                Connection(one.traits.name, one.phone.identity.id, one.phone.facts.boot_id, one.traits.usb is not None)
                for one in kept
                if one.phone is not None
            ]
        )
        for one in kept:
            if one.traits.name in second:
                self._leave_out(one, second[one.traits.name])
        return [one for one in kept if one.traits.name not in second]
