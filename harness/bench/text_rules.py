"""Rules about what the model said: whether it is language at all."""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench.evidence import Evidence, Objection
from harness.core.reasons import Reason

_DEGENERATE_TOKENS = 12
_LONGEST_LOOP = 3


def output_is_language(evidence: Evidence) -> Iterator[Objection]:
    """The text is neither empty nor one short loop."""
    for generation in evidence.told.generations:
        if generation.kind == "warmup":
            continue
        if not any(char.isprintable() and not char.isspace() and char != "\ufffd" for char in generation.text):
            yield Objection(
                Reason.OUTPUT_DEGENERATE,
                f"generation {generation.index} ({generation.kind}): {generation.generated_tokens} tokens, no text",
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
