"""A phone made ready to measure: reached, probed, identified, placed in a tier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.adb.transport import AdbTransport
from harness.bench.gather import gather_facts
from harness.core.deadline import Deadline
from harness.core.provider import Endpoint, load_provider
from harness.core.transport import Transport
from harness.payload.probe import Probe
from harness.phone.facts import Facts
from harness.phone.identity import Identity, identify
from harness.phone.tier import tier_of
from harness.plan.tiers import TierName, TierRules
from harness.store.schema import PhoneInfo

CONNECT_S = 60.0
# A day: longer than a push or a sensible cell takes, even from another computer.
LEFTOVER_MINUTES = 24 * 60


@dataclass(frozen=True)
class ConnectedPhone:
    """Everything that a cell needs to know of its phone."""

    endpoint: Endpoint
    transport: Transport
    probe: Probe
    facts: Facts
    identity: Identity
    tier: TierName

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
        )


def open_transport(endpoint: Endpoint) -> Transport:
    """Return the way to reach ``endpoint``: its provider's own, else adb."""
    own = None if endpoint.provider == "adb" else load_provider(endpoint.provider).transport(endpoint)
    if own is not None:
        return own
    transport = AdbTransport(endpoint)
    transport.require_features()
    return transport


def _remove_leftovers(transport: Transport, deadline: Deadline) -> None:
    """Remove what runs that were killed have left behind. Young folders may be in use by another computer and stay.

    Old phones' ``find`` may not know all of this; then nothing is removed, which costs space and no measurement.
    """
    folders = [f"{transport.base_dir}/{name}" for name in ("incoming", "work")]
    old = ["-mindepth", "1", "-maxdepth", "1", "-mmin", f"+{LEFTOVER_MINUTES}", "-exec", "rm", "-rf", "{}", "+"]
    transport.shell(["find", *folders, *old], deadline=deadline)


def connect(endpoint: Endpoint, rules: TierRules, say: Callable[[str], None] = lambda _: None) -> ConnectedPhone:
    """Reach a phone, put the probe on it, read its facts and find out who it is.

    Raises:
        FarmError: the phone cannot be used; the error says why and whose fault it is.
    """
    say("connecting")
    transport = open_transport(endpoint)
    deadline = Deadline(CONNECT_S, "connecting", transport.name)
    _remove_leftovers(transport, deadline)
    probe = Probe.install(transport, progress=say)
    say("reading facts")
    deadline = Deadline(CONNECT_S, "reading the phone's facts", transport.name)
    facts = gather_facts(transport, probe, deadline)
    return ConnectedPhone(
        endpoint, transport, probe, facts, identify(transport, facts, deadline), tier_of(facts, rules)
    )
