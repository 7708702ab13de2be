"""The one phone that ``--device`` means: any word of ``--devices`` that fits exactly one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from harness.adb.server import AdbServer
from harness.bench.phone import open_transport
from harness.core.errors import ConfigError, FarmError, PhoneOfflineError, UnauthorizedError
from harness.core.log import phone_logger
from harness.core.provider import Endpoint, load_provider
from harness.core.reasons import Reason
from harness.fleet.choose import Listed, describe, fits, traits_of_listed
from harness.fleet.look import facts_shown
from harness.fleet.servers import list_phones
from harness.fleet.states import why_state
from harness.fleet.taking import side_by_side
from harness.fleet.words import Word, Words, read_words
from harness.phone.tier import tier_of
from harness.plan.tiers import TierRules, load_tier_rules


@contextmanager
def one_phone(word: str, servers: Sequence[AdbServer] = ()) -> Iterator[Endpoint]:
    """Find the phone that ``word`` means; a provider's phone is up meanwhile.

    Phones that adb cannot reach are asked for nothing, so a filter such as ``tier=high`` does not mean them.

    Args:
        word: a serial, ``usb:PATH``, ``model=GLOB``, ``virtual:high``, …
        servers: of ``--adb``; empty means the default one.

    Raises:
        ConfigError: the word means no phone, or several.
        UnauthorizedError, PhoneOfflineError: it is there and cannot be used.
        HostError: no adb, no sandbox.
    """
    words = _read(word)
    if not words.provided:
        yield _reachable(_listed(words.wanted[0], list_phones(servers).phones))
        return
    [(prefix, rests)] = words.provided.items()
    provider = load_provider(prefix)
    try:
        endpoints = provider.start(list(rests))
        if len(endpoints) != 1:
            raise ConfigError(f"--device {word} means {len(endpoints)} phones", remedy="name one")
        yield endpoints[0]
    finally:
        provider.stop()


def _read(word: str) -> Words:
    words = read_words(word, "--device")
    if words.unwanted or len(words.wanted) + sum(map(len, words.provided.values())) != 1:
        raise ConfigError(f"--device {word}: one word for one phone is wanted", remedy="say e.g. a serial")
    return words


def _listed(word: Word, phones: Sequence[Listed]) -> Listed:
    """Return the only one of ``phones`` that is meant; those of which it is not known yet are asked."""
    answers = [fits(word, traits_of_listed(phone)) for phone in phones]
    meant = [phone for phone, answer in zip(phones, answers, strict=True) if answer]
    ask = [phone for phone, answer in zip(phones, answers, strict=True) if answer is None and _is_there(phone)]
    if ask:
        rules = load_tier_rules()
        told = side_by_side(lambda one: _fits(word, one, rules), ask)
        meant += [phone for phone, yes in zip(ask, told, strict=True) if yes]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise ConfigError(f"--device {word} means {len(meant)} phones", remedy=f"name one: {_names(meant)}")
    raise ConfigError(f"--device {word}: adb lists no such phone", remedy=f"it lists {_names(phones) or 'none at all'}")


def _is_there(phone: Listed) -> bool:
    return why_state(phone.info.state) is None


def _fits(word: Word, phone: Listed, rules: TierRules) -> bool:
    try:
        facts = facts_shown(open_transport(phone.endpoint))
    except FarmError as error:
        phone_logger(__name__, phone.name).warning("it cannot be asked whether it is meant: %s", error)
        return False
    return fits(word, traits_of_listed(phone).with_facts(facts, tier_of(facts, rules))) is True


def _reachable(phone: Listed) -> Endpoint:
    why = why_state(phone.info.state)
    if why is None:
        return phone.endpoint
    kind = UnauthorizedError if why.code == Reason.UNAUTHORIZED.code else PhoneOfflineError
    raise kind(phone.name, why.reason, remedy=why.remedy)


def _names(phones: Sequence[Listed]) -> str:
    return ", ".join(map(describe, phones))
