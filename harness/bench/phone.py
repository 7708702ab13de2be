"""A phone made ready to measure: reached, probed, identified, placed in a tier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from harness.adb.transport import AdbTransport
from harness.bench.gather import gather_facts
from harness.bench.lease import PhoneLease, give_back_or_let_lapse, take
from harness.bench.recovery import Known, Ladder
from harness.bench.tidy import tidy
from harness.core.deadline import Deadline
from harness.core.provider import Endpoint, load_provider
from harness.core.transport import Transport
from harness.payload.probe import Probe
from harness.phone.charge import refuse_for_ever_low
from harness.phone.facts import Facts
from harness.phone.identity import Identity, identify
from harness.phone.prepare import restore
from harness.phone.tier import Placement, place
from harness.plan.model import Recovery
from harness.plan.tiers import TierName, TierRules
from harness.store.schema import PhoneInfo

CONNECT_S = 60.0


@dataclass(frozen=True)
class ConnectedPhone:
    """Everything that a cell needs to know of its phone."""

    endpoint: Endpoint
    transport: Transport
    probe: Probe
    facts: Facts
    identity: Identity
    placement: Placement
    lease: PhoneLease | None = None

    @property
    def tier(self) -> TierName:
        """The tier it is in."""
        return self.placement.tier

    @property
    def name(self) -> str:
        """Name for people, unique in the fleet."""
        return self.endpoint.name

    @property
    def nulls(self) -> dict[str, str]:
        """Why fields of :attr:`info` are null."""
        return {key: why for key, why in self.facts.nulls.items() if key in PhoneInfo.model_fields}

    @property
    def info(self) -> PhoneInfo:
        """The phone as records name it."""
        return PhoneInfo(
            id=self.identity.id,
            serial=self.facts.serialno or self.transport.serial,
            name=self.name,
            model=self.facts.model,
            soc=self.facts.soc,
            tier=self.tier,
            fingerprint=self.facts.fingerprint,
            boot_id=self.facts.boot_id,
            driver=self.facts.driver,
            ram_bytes=self.facts.ram_bytes,
        )


def open_transport(endpoint: Endpoint) -> Transport:
    """Return the way to reach ``endpoint``: its provider's own, else adb."""
    transport = _way_to(endpoint)
    _require_features(transport)
    return transport


def _way_to(endpoint: Endpoint) -> Transport:
    own = None if endpoint.provider == "adb" else load_provider(endpoint.provider).transport(endpoint)
    return own if own is not None else AdbTransport(endpoint)


def _require_features(transport: Transport) -> None:
    if isinstance(transport, AdbTransport):
        transport.require_features()


@dataclass(frozen=True)
class Terms:
    """On what terms phones are connected.

    Attributes:
        purpose: what they are wanted for, shown to whoever finds them in use; ``""`` only looks and takes no lease.
        wait_lease_s: how long to wait for one that is in use.
        recovery: what is done for one that gets lost meanwhile.
        battery_floor_pct: below it a phone that does not charge is refused.
    """

    purpose: str = "a benchmark"
    wait_lease_s: float = 0.0
    recovery: Recovery = field(default_factory=Recovery)
    battery_floor_pct: int = 0


def connect(
    endpoint: Endpoint, rules: TierRules, say: Callable[[str], None] = lambda _: None, terms: Terms | None = None
) -> ConnectedPhone:
    """Reach a phone, put the probe on it, take its lease, read its facts and find out who it is.

    A phone that is lost meanwhile is brought back and the connecting begins anew.

    Raises:
        FarmError: the phone cannot be used; the error says why and whose fault it is.
    """
    terms = terms or Terms()
    transport = _way_to(endpoint)
    ladder = Ladder(transport, terms.recovery, say)

    def step() -> ConnectedPhone:
        say("connecting")
        _require_features(transport)
        ladder.shake_hands()
        return _connect(endpoint, transport, rules, say, terms)

    return ladder.until_done(step)


def claim(phone: ConnectedPhone, say: Callable[[str], None], terms: Terms) -> ConnectedPhone:
    """Take the lease of a phone that was connected to be looked at, without reading its facts again.

    Raises:
        FarmError: somebody else has it (reason ``busy``), or it was lost meanwhile and did not come back.
    """
    ladder = Ladder(phone.transport, terms.recovery, say, known=Known(phone.identity.id, phone.facts.boot_id))
    return ladder.until_done(lambda: replace(phone, lease=_take(phone.transport, phone.probe, say, terms)))


def _connect(
    endpoint: Endpoint, transport: Transport, rules: TierRules, say: Callable[[str], None], terms: Terms
) -> ConnectedPhone:
    probe = Probe.install(transport, progress=say)
    lease = _take(transport, probe, say, terms) if terms.purpose else None
    try:
        say("reading facts")
        deadline = Deadline(CONNECT_S, "reading the phone's facts", transport.name)
        facts = gather_facts(transport, probe, deadline)
        refuse_for_ever_low(facts.battery, terms.battery_floor_pct, transport.name)
        identity = identify(transport, facts, deadline)
        return ConnectedPhone(endpoint, transport, probe, facts, identity, place(facts, rules), lease)
    except BaseException:
        if lease is not None:
            give_back_or_let_lapse(lease)
        raise


def _take(transport: Transport, probe: Probe, say: Callable[[str], None], terms: Terms) -> PhoneLease:
    """Take the phone, and do what whoever had it before could not do any more."""
    say("taking the phone")
    lease = take(probe, transport.name, transport.base_dir, terms.purpose, wait_s=terms.wait_lease_s, say=say)
    try:
        say("tidying up")
        tidy(transport, probe)
        owed = restore(transport, Deadline(CONNECT_S, "putting settings back", transport.name))
    except BaseException:
        give_back_or_let_lapse(lease)
        raise
    if owed.back:
        names = ", ".join(change.what for change in owed.back)
        lease.notes.append(f"an earlier run had left these changed, they are as before again: {names}")
    lease.notes += [f"{what} is still owed: {why}" for what, why in owed.owed.items()]
    lease.notes += [f"{what} was left as it is: {why}" for what, why in owed.left_alone.items()]
    lease.notes += owed.notes
    return lease
