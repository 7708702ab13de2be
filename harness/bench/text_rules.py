"""Rules about what the model said: whether it is language, and whether it is what the same model says elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from harness.bench.evidence import Evidence, Objection
from harness.bench.match import Comparison, Expected, compare, compare_text, difference
from harness.bench.wording import garbled
from harness.core.reasons import Reason
from harness.plan.model import Policy
from harness.runners.events import Generation
from harness.store.schema import Finding

_DEGENERATE_TOKENS = 12
_LONGEST_LOOP = 3
# So many of a golden set's answers may differ from the reference without the port being wrong: with dozens of texts, a
# few meet a place where rounding tips a choice that is no near tie.
_GOLDEN_MAY_DIFFER = 0.1
_IDS_SHOWN = 16

Match = Policy | Literal["near_tie", "differs"]


def output_is_language(evidence: Evidence) -> Iterator[Objection]:
    """The text is neither empty nor garbled nor one short loop. Of equal texts one is looked at.

    Where a runner shows none of what it timed, the text of another program of the same build stands for it.
    """
    seen: set[tuple[str, tuple[int, ...]]] = set()
    if evidence.told.of_kind("check"):
        seen.add(("", ()))
    for generation in evidence.told.generations:
        if generation.kind == "warmup" or (generation.text, generation.token_ids) in seen:
            continue
        seen.add((generation.text, generation.token_ids))
        if not any(char.isprintable() and not char.isspace() and char != "\ufffd" for char in generation.text):
            yield Objection(
                Reason.OUTPUT_DEGENERATE,
                f"generation {generation.index} ({generation.kind}): {generation.generated_tokens} tokens, no text",
            )
            return
        unreadable = garbled(generation.text)
        if unreadable:
            yield Objection(
                Reason.OUTPUT_DEGENERATE,
                f"generation {generation.index} ({generation.kind}): {unreadable}",
                generation.text[:200],
            )
            return
        # The token that ends an answer belongs to no loop; without ids the characters must do.
        ids = generation.token_ids[:-1] if generation.finish == "eos" else generation.token_ids
        loop = repeated_loop(ids or tuple(map(ord, generation.text)))
        if loop:
            yield Objection(
                Reason.OUTPUT_DEGENERATE,
                f"generation {generation.index} ({generation.kind}) repeats {len(loop)} token(s) to its end",
                generation.text[:200],
            )
            return


def repeated_loop(token_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Return the loop of at most three tokens that fills a whole generation but its first tokens, else ``()``."""
    for length in range(1, _LONGEST_LOOP + 1):
        body = token_ids[len(token_ids) // 4 :]
        if len(body) < max(_DEGENERATE_TOKENS, 3 * length):
            continue
        if all(a == b for a, b in zip(body, body[length:], strict=False)):
            return body[:length]
    return ()


@dataclass(frozen=True)
class Held:
    """One text of the phone beside that of the reference. ``of_set``: it answers a question of the golden set."""

    said: Generation
    wanted: Expected
    result: Comparison
    of_set: bool

    @property
    def what(self) -> str:
        """Which text it is, for people."""
        return f"generation {self.said.index} ({self.said.kind})"

    @property
    def same_prompt(self) -> bool:
        """Whether both engines made as many tokens of the prompt, as far as the reference tells."""
        return 0 in (self.wanted.prompt_tokens, self.said.prompt_tokens) or (
            self.wanted.prompt_tokens == self.said.prompt_tokens
        )

    @property
    def how(self) -> str:
        """At which token it differs, and what each says."""
        return difference(self.result.common, Expected.of(self.said), self.wanted)


@dataclass(frozen=True)
class Judged:
    """All texts of a cell beside the reference, and what that amounts to.

    ``other_prompts`` are not compared: the phone's engine made another number of tokens of the same question, as
    engines of different versions may by their chat templates.
    """

    policy: Policy
    held: tuple[Held, ...]
    other_prompts: tuple[Held, ...] = ()

    @property
    def wrong(self) -> tuple[Held, ...]:
        """The texts that are not what the reference says and make the cell wrong."""
        plain = tuple(one for one in self.held if one.result.differs and not one.of_set)
        return plain or (self.of_set_differing if self._too_many_of_set else ())

    @property
    def of_set_differing(self) -> tuple[Held, ...]:
        """The answers to the golden set that differ."""
        return tuple(one for one in self.held if one.result.differs and one.of_set)

    @property
    def _too_many_of_set(self) -> bool:
        asked = sum(one.of_set for one in self.held)
        return len(self.of_set_differing) > math.ceil(asked * _GOLDEN_MAY_DIFFER)

    @property
    def match(self) -> Match:
        """The policy that held, ``near_tie`` where it held but for one, or ``differs``."""
        if self.wrong:
            return "differs"
        tied = any(one.result.tie for one in self.held if not one.of_set)
        return "near_tie" if tied else self.policy

    @property
    def matched_tokens(self) -> int | None:
        """The same tokens from the start on, in the timed generation where they are fewest."""
        timed = [one.result.common for one in self.held if one.said.kind in ("timed", "check")]
        return min(timed, default=None)


def against_reference(evidence: Evidence) -> Judged | None:
    """Return every text of the cell beside the reference; ``None`` where there is none, or nothing to compare."""
    reference = evidence.reference
    policy, prefix = evidence.plan.reference.policy_for(evidence.cell.backend, evidence.cell.precision)
    if reference is None or policy == "off":
        return None
    texts = [(timed, reference.timed, False) for timed in (*evidence.timed, *evidence.told.of_kind("check"))]
    answers = zip(evidence.told.of_kind("answer"), reference.answers, strict=False)
    texts += [(said, wanted, n >= len(evidence.plan.ask)) for n, (said, wanted) in enumerate(answers)]
    held = tuple(
        Held(said, wanted, result, of_set)
        for said, wanted, of_set in texts
        if (result := _compare(said, wanted, policy, prefix)) is not None
    )
    same = tuple(one for one in held if one.same_prompt)
    other = tuple(one for one in held if not one.same_prompt)
    return Judged(policy, same, other) if same else None


def _compare(said: Generation, wanted: Expected, policy: Policy, prefix: int) -> Comparison | None:
    """Compare by token ids, else by the text; ``None`` where neither is known."""
    if said.token_ids:
        return compare(said.token_ids, wanted, policy, prefix)
    return compare_text(said.text, wanted, policy, prefix) if said.text and wanted.pieces else None


def output_matches_reference(evidence: Evidence) -> Iterator[Objection]:
    """The text is what the same model says on this computer, as far as the plan's policy asks."""
    judged = against_reference(evidence)
    if judged is None or not judged.wrong:
        return
    worst, reference = min(judged.wrong, key=lambda one: one.result.common), evidence.reference
    engine = reference.engine_version if reference is not None else ""
    phone = evidence.told.hello.engine_version if evidence.told.hello is not None else None
    others = f"; so do {len(judged.wrong) - 1} more texts" if len(judged.wrong) > 1 else ""
    versions = f" (engine {phone or 'unknown'} on the phone, {engine} here)" if phone != engine else ""
    yield Objection(
        Reason.OUTPUT_WRONG,
        f"{worst.what} differs from the reference{versions}: {worst.how}{others}",
        f"phone:     {list(worst.said.token_ids[:_IDS_SHOWN])} {worst.said.text[:400]!r}\n"
        f"reference: {list(worst.wanted.token_ids[:_IDS_SHOWN])} {worst.wanted.text[:400]!r}",
    )


def text_findings(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is to be known about the text and does not decide."""
    texts = {timed.token_ids or timed.text for timed in evidence.timed}
    if len(texts) > 1:
        said = " / ".join(dict.fromkeys(repr(timed.text[:80]) for timed in evidence.timed))
        yield _warning(
            "not_deterministic", f"{len(evidence.timed)} repeats of one prompt gave {len(texts)} texts: {said}"
        )
    judged = against_reference(evidence)
    if judged is None:
        return
    if judged.other_prompts:
        one = judged.other_prompts[0]
        yield _warning(
            "prompt_differs",
            f"{len(judged.other_prompts)} texts are not compared: of the prompt of {one.what} the phone's engine made "
            f"{one.said.prompt_tokens} tokens, this computer's {one.wanted.prompt_tokens}",
        )
    for one in judged.held:
        if one.result.tie and not one.of_set:
            yield Finding(
                code="near_tie",
                severity="info",
                title=f"{one.what} parts from the reference where both tokens are nearly as likely: {one.how}"[:500],
            )
            break
    if judged.of_set_differing and not judged.wrong:
        count, asked = len(judged.of_set_differing), len(evidence.plan.golden.ask)
        how = judged.of_set_differing[0].how
        yield _warning(
            "golden_differs", f"{count} of the golden set's {asked} answers differ from the reference, e.g. {how}"
        )


def _warning(code: str, title: str) -> Finding:
    return Finding(code=code, severity="warning", title=title[:500])
