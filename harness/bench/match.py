"""Tokens of a phone held against those of the reference. Pure.

Greedy decoding takes the most likely token. Where two are nearly equally likely, an honest phone may take the other:
half precision, another order of additions or another rounding is enough. From there on the texts differ, and nothing
can be compared any more. The reference therefore tells how close its own choice was (:data:`NEAR_TIE`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

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
    how many tokens the engine made of the prompt, 0 where that is not known.
    """

    token_ids: tuple[int, ...]
    text: str
    finish: str
    prompt_tokens: int = 0
    margins: tuple[tuple[tuple[int, float], ...], ...] = ()

    @staticmethod
    def of(generation: Generation) -> Expected:
        """Take what the reference runner told."""
        return Expected(
            token_ids=generation.token_ids,
            text=generation.text,
            finish=generation.finish,
            prompt_tokens=generation.prompt_tokens,
            margins=generation.margins,
        )

    def is_tie(self, place: int, token: int) -> bool:
        """Whether ``token`` would have been nearly as likely at ``place``."""
        return place < len(self.margins) and any(
            rival == token and gap <= NEAR_TIE for rival, gap in self.margins[place]
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


def common_prefix(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return how many tokens are the same from the start on."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def difference(common: int, said: Expected, wanted: Expected) -> str:
    """Return at which token two texts part and what each says, as ids and text; tokens count from 1."""
    return (
        f"token {common + 1} is {_token(said.token_ids, common)} instead of {_token(wanted.token_ids, common)}; "
        f"it says {_shown(said.text)}, the reference {_shown(wanted.text)}"
    )


def _token(ids: tuple[int, ...], place: int) -> str:
    return str(ids[place]) if place < len(ids) else "missing"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
