"""Look at phones without taking them: what ``mnn-farm devices`` shows.

No lease is taken and no setting changed; the probe is put on a phone that lacks it, because the tier comes from facts
that only it can read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from harness.bench.lease import lease_file, owner_is_dead
from harness.bench.phone import open_transport
from harness.core.deadline import Deadline
from harness.core.errors import FarmError
from harness.core.transport import Transport
from harness.fleet.choose import Listed
from harness.fleet.meeting import free_bytes
from harness.fleet.states import Why, why_booting, why_error, why_full, why_held, why_held_by, why_state
from harness.fleet.taking import side_by_side
from harness.payload.probe import Probe
from harness.payload.probe_lease import Lease
from harness.phone.battery import parse_battery
from harness.phone.drivers import DriverListing
from harness.phone.facts import Facts, Told, build_facts
from harness.phone.getprop import parse_getprop
from harness.phone.health import HealthStore, Hold
from harness.phone.identity import Identity, identify, known_identity
from harness.phone.probed import read_probe_facts
from harness.phone.tier import place
from harness.plan.tiers import TierName, TierRules, load_tier_rules

LOOK_S = 30.0


@dataclass(frozen=True)
class Seen:
    """One transport, looked at. ``None`` is unknown, with its reason in ``nulls``; ``why`` is ``None``: usable."""

    name: str
    server: str
    serial: str
    state: str
    transport_id: int | None
    usb: str | None
    model: str | None
    id: str | None = None
    serialno: str | None = None
    soc: str | None = None
    soc_name: str | None = None
    tier: TierName | None = None
    tier_because: str | None = None
    ram_bytes: int | None = None
    android_release: str | None = None
    sdk: int | None = None
    free_bytes: int | None = None
    battery_pct: int | None = None
    battery_c: float | None = None
    lease: Lease | None = None
    hold: Hold | None = None
    why: Why | None = None
    nulls: Mapping[str, str | None] = field(default_factory=dict)


def look_at_all(phones: Sequence[Listed], health: HealthStore, now: datetime) -> list[Seen]:
    """Look at all phones side by side; one that does not answer costs its deadlines and delays nobody's answer."""
    rules = load_tier_rules()
    return side_by_side(lambda phone: look_at(phone, rules, health, now), phones)


def look_at(phone: Listed, rules: TierRules, health: HealthStore, now: datetime) -> Seen:
    """Look at one phone; whatever fails is said in the answer."""
    info = phone.info
    seen = Seen(
        phone.name, phone.server.address, info.serial, info.state, info.transport_id, info.usb, info.model,
        why=why_state(info.state), nulls={},
    )  # fmt: skip
    if seen.why is None:
        try:
            seen = _asked(seen, open_transport(phone.endpoint), rules)
        except FarmError as error:
            seen = replace(seen, why=why_error(error, phone.name))
    return _explained(_with_hold(seen, health, now))


def _asked(seen: Seen, transport: Transport, rules: TierRules) -> Seen:
    """Ask a phone that adb can reach, the cheapest first; what was told before something failed is kept."""
    deadline = Deadline(LOOK_S, "looking at the phone", transport.name)
    properties = parse_getprop(transport.shell(["getprop"], deadline=deadline).stdout)
    free = free_bytes(transport, deadline)
    battery = parse_battery(transport.shell(["dumpsys", "battery"], deadline=deadline).stdout)
    plain = _facts(properties)
    seen = replace(
        seen,
        model=plain.model or seen.model,
        serialno=plain.serialno,
        soc=plain.soc,
        soc_name=plain.soc_name,
        android_release=plain.android_release,
        sdk=plain.sdk,
        free_bytes=free,
        battery_pct=battery.level_pct,
        battery_c=battery.temp_c,
        nulls={**plain.nulls, "battery_pct": battery.nulls.get("level_pct"), "battery_c": battery.nulls.get("temp_c")},
    )
    why = why_booting(properties) or why_full(free)
    if why is not None:
        return replace(seen, why=why)
    try:
        probe = Probe.install(transport)
        facts = _facts(properties, probe)
        placement = place(facts, rules)
        seen = replace(
            seen,
            tier=placement.tier,
            tier_because=placement.because,
            soc_name=facts.soc_name,
            ram_bytes=facts.ram_bytes,
            nulls={**seen.nulls, **facts.nulls},
        )
        # Building the probe, once per computer, takes longer than any phone.
        deadline = Deadline(LOOK_S, "asking who the phone is", transport.name)
        identity = known_identity(transport, facts, deadline)
        lease = probe.show_lease(lease_file(transport.base_dir)).holder
    except FarmError as error:
        return replace(seen, why=why_error(error, transport.name))
    return replace(
        seen,
        id=None if identity is None else identity.id,
        lease=lease,
        # The next run takes over at once what a dead process of this computer has left.
        why=None if lease is None or owner_is_dead(lease) else why_held_by(lease),
    )


def _facts(properties: Mapping[str, str], probe: Probe | None = None) -> Facts:
    """Return the facts that are shown; drivers and Python are not."""
    probed = read_probe_facts({}) if probe is None else probe.facts()
    return build_facts(Told(properties, probed, DriverListing(None, None)))


# What may be unknown of a phone; all else that is null means "there is none".
_UNKNOWN = (
    "model", "id", "serialno", "soc", "soc_name", "tier", "tier_because", "ram_bytes", "android_release", "sdk",
    "free_bytes", "battery_pct", "battery_c",
)  # fmt: skip


def _explained(seen: Seen) -> Seen:
    """Give every unknown field its reason, and no other."""
    default = "the phone does not tell" if seen.why is None else f"not asked: {seen.why.reason}"
    nulls = {"id": "it has none yet; its first run or hold gives it one"} if seen.tier is not None else {}
    nulls.update({key: why for key, why in seen.nulls.items() if why})
    return replace(seen, nulls={key: nulls.get(key, default) for key in _UNKNOWN if getattr(seen, key) is None})


def _with_hold(seen: Seen, health: HealthStore, now: datetime) -> Seen:
    """Add the hold of a phone; of one that cannot be asked who it is, of the only phone that was called so."""
    known = [phone_id for phone_id, name in health.names().items() if name == seen.name] if seen.id is None else []
    phone_id = seen.id or (known[0] if len(known) == 1 else None)
    hold = None if phone_id is None else health.held(phone_id, now)
    if hold is None:
        return seen
    return replace(seen, id=phone_id, hold=hold, why=seen.why or why_held(hold, seen.name))


def meet_for_id(phone: Listed) -> Identity:
    """Find out who a phone is, and tell it if it does not know itself: a hold needs a phone's id.

    Raises:
        FarmError: the phone cannot be asked.
    """
    transport = open_transport(phone.endpoint)
    facts = facts_shown(transport)
    deadline = Deadline(LOOK_S, "asking who the phone is", transport.name)
    return identify(transport, facts, deadline)


def facts_shown(transport: Transport) -> Facts:
    """Ask a phone for the facts by which it is shown and chosen; the probe is put on it.

    Raises:
        FarmError: the phone cannot be asked.
    """
    deadline = Deadline(LOOK_S, "asking who the phone is", transport.name)
    properties = parse_getprop(transport.shell(["getprop"], deadline=deadline).stdout)
    return _facts(properties, Probe.install(transport))
