"""Which phones the words of ``--devices`` mean. Pure.

A phone is judged twice: by what adb lists, before it is touched, and by its facts, when they are read. In between an
answer may be unknown (``None``): then the phone is connected to find out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from harness.adb.server import AdbServer, TransportInfo
from harness.core.errors import ConfigError
from harness.core.provider import NAMED, Endpoint, provider_names
from harness.fleet.words import Kind, Word, Words, sdk_range
from harness.phone.facts import Facts
from harness.plan.tiers import TierName


@dataclass(frozen=True)
class Listed:
    """One transport of one server, with a name that is unique among all that were listed together.

    ``shared``: the server lists another phone with this serial, so that only its transport's number tells them apart.
    ``named``: the server was named by ``--adb``, so that starting it is somebody else's business.
    """

    name: str
    server: AdbServer
    info: TransportInfo
    shared: bool = False
    named: bool = False

    @property
    def endpoint(self) -> Endpoint:
        """Where to reach it: by its serial, because a server that was started again numbers its transports anew."""
        known = {
            "transport_id": self.info.transport_id if self.shared else None,
            "usb": self.info.usb,
            "server": NAMED if self.named else None,
        }
        extra = {key: str(value) for key, value in known.items() if value is not None}
        return Endpoint(self.name, "adb", self.server.host, self.server.port, self.info.serial, extra=extra)


def name_all(listed: Sequence[tuple[AdbServer, TransportInfo]], *, named: bool = False) -> list[Listed]:
    """Name phones by their serials; by server and transport too, where a serial is not enough.

    ``named``: the servers were named by ``--adb``.
    """
    everywhere = Counter(info.serial for _, info in listed)
    on_server = Counter((server, info.serial) for server, info in listed)
    several = len({server for server, _ in listed}) > 1
    found = []
    for server, info in listed:
        name = info.serial
        if everywhere[name] > 1 and several:
            name += f"@{server.address}"
        shared = on_server[server, info.serial] > 1
        if shared:
            name += f"@{info.transport_id}"
        found.append(Listed(name, server, info, shared, named))
    return found


def describe(listed: Listed) -> str:
    """Return one of adb's phones for people: name, state and model."""
    model = f", {listed.info.model}" if listed.info.model else ""
    return f"{listed.name} ({listed.info.state}{model})"


@dataclass(frozen=True)
class Traits:
    """What words look at. ``known`` tells whether facts were read; before, what is missing may still turn up.

    ``serial`` is the one that adb lists, ``serialno`` the phone's own: over a network they differ.
    """

    name: str
    serial: str = ""
    serialno: str | None = None
    usb: str | None = None
    transport_id: int | None = None
    model: str | None = None
    socs: tuple[str, ...] = ()
    tier: TierName | None = None
    sdk: int | None = None
    from_adb: bool = True
    known: bool = False

    def with_facts(self, facts: Facts, tier: TierName) -> Traits:
        """Return the same phone after its facts were read."""
        socs = tuple(name for name in (facts.soc, facts.soc_name, facts.platform) if name)
        return replace(
            self, serialno=facts.serialno, model=facts.model, socs=socs, tier=tier, sdk=facts.sdk, known=True
        )


def traits_of_listed(listed: Listed) -> Traits:
    """Return what adb's list tells."""
    info = listed.info
    return Traits(listed.name, info.serial, usb=info.usb, transport_id=info.transport_id, model=info.model)


def traits_of_provided(endpoint: Endpoint) -> Traits:
    """Return what is known of a provider's phone before it is connected."""
    return Traits(endpoint.name, endpoint.transport_serial, from_adb=False)


def fits(word: Word, phone: Traits) -> bool | None:
    """Return whether ``word`` means ``phone``; ``None`` when that cannot be told yet."""
    if word.kind is Kind.ALL:
        return phone.from_adb
    if word.kind is Kind.SERIAL:
        return word.value in (phone.serial, phone.name, phone.serialno)
    if word.kind is Kind.USB:
        return word.value == phone.usb
    if word.kind is Kind.TRANSPORT:
        return int(word.value) == phone.transport_id
    if word.kind is Kind.MODEL:
        # adb tells the model of a phone that it has reached before, also when nobody else can.
        return _like(phone.model, word.value) if phone.model or phone.known else None
    if not phone.known:
        return None
    if word.kind is Kind.SOC:
        return any(_like(name, word.value) for name in phone.socs)
    if word.kind is Kind.TIER:
        return word.value == phone.tier
    low, high = sdk_range(word.value)
    return phone.sdk is not None and low <= phone.sdk <= (phone.sdk if high is None else high)


def wanted(words: Iterable[Word], phone: Traits) -> bool | None:
    """Return whether any of ``words`` means ``phone``: yes beats unknown beats no."""
    answers = {fits(word, phone) for word in words}
    return True if True in answers else None if None in answers else False


def unwanted_by(words: Words, phone: Traits) -> Word | None:
    """Return the ``not:`` word that leaves ``phone`` out, as far as is known yet."""
    return next((word for word in words.unwanted if fits(word, phone)), None)


def check_names(words: Words, phones: Sequence[Traits], shown: Sequence[str]) -> None:
    """Refuse names that nobody has.

    Args:
        words: of ``--devices``.
        phones: all that there are.
        shown: the same phones as people should see them.

    Raises:
        ConfigError: a name nobody has; the sentence lists what is there.
    """
    # A provider's phone that is chosen by another word may be named to leave it out, not to choose it.
    listed = [phone for phone in phones if phone.from_adb]
    for before, among, there in (("", words.wanted, listed), ("not:", words.unwanted, phones)):
        for word in among:
            if word.kind.is_name and not any(fits(word, phone) for phone in there):
                raise _nobody(word, before, shown)


def check_filters(words: Words, answers: Iterable[Traits], shown: Sequence[str]) -> None:
    """Refuse filters (``model=``, ``soc=``, ``tier=``, ``sdk=``) that no phone fits or might fit.

    Raises:
        ConfigError: there is one; the sentence lists what is there.
    """
    phones = [phone for phone in answers if phone.from_adb]
    for word in words.wanted:
        if word.kind is not Kind.ALL and not any(fits(word, phone) in (True, None) for phone in phones):
            raise _nobody(word, "", shown)


def _nobody(word: Word, before: str, shown: Sequence[str]) -> ConfigError:
    what = "no phone has this serial" if word.kind is Kind.SERIAL else "no phone is meant by it"
    providers = ", ".join(f"{name}:…" for name in provider_names())
    return ConfigError(
        f"--devices {before}{word}: {what}; there are: {', '.join(shown) or 'none'}",
        remedy=f"use one of these, all, a filter such as model=GLOB, or {providers}",
    )


def _like(name: str | None, glob: str) -> bool:
    """Return whether a name fits a glob, in whatever case, as the phone writes it or as adb does (``Toy_3``)."""
    if name is None:
        return False
    if fnmatchcase(name.lower(), glob.lower()):
        return True
    return fnmatchcase(_as_adb(name), re.sub(r"[^a-z0-9*?]", "_", glob.lower()))


def _as_adb(name: str) -> str:
    """Write a name as adb does in its list: ASCII letters and digits, everything else ``_``; in small letters."""
    return re.sub(r"[^a-z0-9]", "_", name.lower())
