"""What would change a decision: more memory, or another backend. Sentences computed from what was ruled out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from harness.report.choosing import Labels
from harness.report.slo import Missed
from harness.report.text import backend_name, mebibytes, number, plural
from harness.report.tiers_decide import Decision
from harness.report.tiers_tried import Tried

_GIB: Final = 2**30
_MEMORY: Final = frozenset({"ram_share_max", "min_available_bytes"})
_DID_NOT_FIT: Final = frozenset({"model_too_big", "out_of_memory"})
# A backend that is not faster by so much is not worth a sentence.
_WORTH: Final = 1.1


def what_if(
    decision: Decision, tried: Sequence[Tried], ram_bytes: Mapping[str, int], labels: Labels
) -> tuple[str, ...]:
    """Return sentences about what more memory, or proof of another backend, would change.

    ``ram_bytes`` is each phone's MemTotal by its id, as far as it is known.
    """
    return (*_memory(decision, tried, ram_bytes, labels), *_backends(decision, tried))


def _memory(decision: Decision, tried: Iterable[Tried], ram_bytes: Mapping[str, int], labels: Labels) -> Iterable[str]:
    """The largest model that only memory speaks against, if it is larger than the one to use."""
    used = decision.recommended.configuration.weight_bytes if decision.recommended else 0
    larger = [each for each in tried if each.configuration.weight_bytes > used]
    lacking = [each for each in larger if _only_memory(each)]
    refused = [each for each in larger if each.code in _DID_NOT_FIT]
    if lacking:
        # Of one model the configuration that lacks least, on the phone that lacks most of it.
        largest = max(each.configuration.weight_bytes for each in lacking)
        need: dict[object, tuple[int, Tried]] = {}
        for each in lacking:
            if each.configuration.weight_bytes == largest:
                lacks = _lacks(each.judgement.missed, ram_bytes.get(each.phone_id))
                known = need.get(each.configuration)
                if known is None or lacks > known[0]:
                    need[each.configuration] = (lacks, each)
        lacks, each = min(need.values(), key=lambda found: (found[0], found[1].configuration.name))
        steps = -(-lacks // _GIB)
        yield (
            f"with {steps} GiB more memory, {each.configuration.name} would meet the SLO on {labels[each.phone_id]}: "
            f"{mebibytes(lacks)} are missing"
        )
    elif refused:
        each = max(refused, key=lambda one: (one.configuration.weight_bytes, one.configuration.name))
        yield f"with more memory, {each.configuration.model} might run on {labels[each.phone_id]} ({each.because})"


def _only_memory(each: Tried) -> bool:
    missed = {line.name for line in each.judgement.missed}
    return each.standing == "misses" and missed <= _MEMORY and not each.judgement.unknown


def _lacks(missed: Iterable[Missed], ram_bytes: int | None) -> int:
    """Return by how many bytes more RAM both promises would be kept; more RAM is more free memory too."""
    needs = []
    for line in missed:
        got = line.got or 0.0
        if line.name == "min_available_bytes":
            needs.append(line.wanted - got)
        elif ram_bytes is not None:
            # The share is of so much memory; the same peak must be the promised share of more.
            needs.append(got * ram_bytes / line.wanted - ram_bytes)
    return int(max(needs, default=0.0))


def _backends(decision: Decision, tried: Sequence[Tried]) -> Iterable[str]:
    """Other backends for the model in use: by how much they are faster, and what speaks against them."""
    best = decision.recommended
    if best is None:
        return
    own = {each.phone_id: each.decode_tps for each in tried if each.configuration == best.configuration}
    same_model = [each for each in tried if each.configuration.model_hash == best.configuration.model_hash]
    for backend in dict.fromkeys(each.configuration.backend for each in same_model):
        if backend == best.configuration.backend:
            continue
        there = [each for each in same_model if each.configuration.backend == backend]
        phones = dict.fromkeys(each.phone_id for each in there)
        fastest = {
            phone: max((each for each in there if each.phone_id == phone and each.decode_tps), key=_speed, default=None)
            for phone in phones
        }
        proven = {phone: each for phone, each in fastest.items() if each is not None and own.get(phone)}
        without = [phone for phone in phones if fastest[phone] is None]
        name = backend_name(backend)
        if not proven:
            reasons = ", ".join(dict.fromkeys(each.code for each in there if each.code)) or "no valid cell"
            yield f"{name} has no proof on {_all(len(phones))} that tried it: {reasons}"
            continue
        ratio = min(_speed(each) / (own[phone] or 1.0) for phone, each in proven.items())
        if ratio < _WORTH:
            continue
        against = _against(list(proven.values()), without, len(phones))
        yield f"{name} would be {number(ratio)} times as fast on {plural(len(proven), 'phone')}, but {against}"


def _against(proven: Sequence[Tried], without: Sequence[str], phones: int) -> str:
    if without:
        return f"has no proof on {len(without)} of {plural(phones, 'phone')}"
    refused = next((each for each in proven if each.standing == "refused"), None)
    if refused is not None:
        return refused.because
    missing = next((each for each in proven if each.standing in ("misses", "unknown")), None)
    if missing is not None:
        lines = missing.judgement.missed or missing.judgement.unknown
        return "; ".join(line.words for line in lines)
    return "its model or memory weighs more against it"


def _all(phones: int) -> str:
    return "the phone" if phones == 1 else f"any of the {phones} phones"


def _speed(each: Tried) -> float:
    return each.decode_tps or 0.0
