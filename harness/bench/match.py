"""Tokens of a phone held against those of the reference. Pure.

Greedy decoding takes the most likely token. Where two are nearly equally likely, an honest phone may take the other:
half precision, another order of additions or another rounding is enough. From there on the texts differ, and nothing
can be compared any more. The reference therefore tells how close its own choice was (:data:`NEAR_TIE`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from harness.plan.model import Policy
from harness.runners.events import Generation

#: A token that the reference holds at least half as likely as its own choice is a tie: so far behind are their logits.
NEAR_TIE = math.log(2)

_SHOWN = 120


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Expected(_Frozen):
    """One text of the reference.

    ``margins`` holds for each token those that came nearest, and how far their logits were behind. ``prompt_tokens`` is
    how many tokens the engine made of the prompt, 0 where that is not known. ``pieces`` are the bytes of all these
    tokens in hexadecimal, empty where the runner that made the reference did not tell them.
    """

    token_ids: tuple[int, ...]
    text: str
    finish: str
    prompt_tokens: int = 0
    margins: tuple[tuple[tuple[int, float], ...], ...] = ()
    pieces: dict[int, str] = Field(default_factory=dict)

    @staticmethod
    def of(generation: Generation) -> Expected:
        """Take what the reference runner told."""
        return Expected(
            token_ids=generation.token_ids,
            text=generation.text,
            finish=generation.finish,
            prompt_tokens=generation.prompt_tokens,
            margins=generation.margins,
            pieces=generation.pieces,
        )

    def is_tie(self, place: int, token: int) -> bool:
        """Whether ``token`` would have been nearly as likely at ``place``."""
        return place < len(self.margins) and any(
            rival == token and gap <= NEAR_TIE for rival, gap in self.margins[place]
        )

    def is_tie_as_text(self, place: int, rest: bytes) -> bool:
        """Whether ``rest``, which is said instead at ``place``, begins with a token that was nearly as likely."""
        return place < len(self.margins) and any(
            gap <= NEAR_TIE and (piece := bytes.fromhex(self.pieces.get(rival, ""))) and rest.startswith(piece)
            for rival, gap in self.margins[place]
        )


class Reference(_Frozen):
    """What the same model says on this computer: to the timed prompt, and to each question in order."""

    engine_version: str
    timed: Expected
    answers: tuple[Expected, ...]


@dataclass(frozen=True)
class Comparison:
    """One text against its reference. ``common`` is how many tokens are the same from the start on.

    ``held``: the policy is met; ``tie``: it is not, but the first token that differs would have been nearly as likely.
    """

    common: int
    held: bool
    tie: bool = False

    @property
    def differs(self) -> bool:
        """Whether the text is another one."""
        return not self.held and not self.tie


def compare(said: tuple[int, ...], expected: Expected, policy: Policy, prefix_tokens: int) -> Comparison:
    """Hold a text against its reference.

    ``exact`` wants every token and forgives nothing; ``prefix`` wants the first ``prefix_tokens``, or all of a shorter
    text, ``first`` one; both forgive a tie.
    """
    wanted = expected.token_ids
    common = common_prefix(said, wanted)
    if policy == "off":
        return Comparison(common, held=True)
    if policy == "exact":
        return Comparison(common, held=said == wanted)
    if common >= min(prefix_tokens if policy == "prefix" else 1, len(wanted)):
        return Comparison(common, held=True)
    return Comparison(common, held=False, tie=common < len(said) and expected.is_tie(common, said[common]))


def compare_text(said: str, expected: Expected, policy: Policy, prefix_tokens: int) -> Comparison:
    """Hold a text whose token ids nobody told against its reference, whose pieces are known.

    Tokens count as in :func:`compare`; one that the text merely begins with is taken for the same.
    """
    data, at = said.encode("utf-8", "replace"), 0
    begins: list[int] = []
    wanted = expected.token_ids
    for place, token in enumerate(wanted):
        piece = bytes.fromhex(expected.pieces.get(token, ""))
        ends = expected.finish == "eos" and place == len(wanted) - 1
        if not data.startswith(piece, at) or (ends and at < len(data)):
            break
        begins.append(at)
        at += len(piece)
    whole = said == expected.text
    common = len(wanted) if whole else len(begins)
    if policy == "off":
        return Comparison(common, held=True)
    if policy == "exact":
        return Comparison(common, held=whole)
    if common >= min(prefix_tokens if policy == "prefix" else 1, len(wanted)):
        return Comparison(common, held=True)
    # A longer token that begins like the wanted one parts a place earlier than it seems.
    places = [(common, at), *([(common - 1, begins[-1])] if begins else [])]
    return Comparison(common, held=False, tie=any(expected.is_tie_as_text(n, data[begin:]) for n, begin in places))


def common_prefix(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return how many tokens are the same from the start on."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def difference(common: int, said: Expected, wanted: Expected) -> str:
    """Return at which token two texts part and what each says, as ids (where told) and text; tokens count from 1."""
    other = f"is {_token(said.token_ids, common)}" if said.token_ids or not said.text else "is another one"
    return (
        f"token {common + 1} {other} instead of {_token(wanted.token_ids, common)}; "
        f"it says {_shown(said.text)}, the reference {_shown(wanted.text)}"
    )


def _token(ids: tuple[int, ...], place: int) -> str:
    return str(ids[place]) if place < len(ids) else "missing"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
