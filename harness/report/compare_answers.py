"""What two cells answer, compared: scores of questions, and the accuracy that models that are no language models keep.

Pure. There is no ratio: a share of right answers, or a similarity, is not fast or slow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from harness.report.cells import value_at
from harness.report.change import Change, Judgement
from harness.report.compare_figures import Figure
from harness.report.tensors import Accuracy, accuracy_of, cosine_text
from harness.store.schema import CellRecord

_Z95: Final = 1.959963985
# Outputs for the same samples do not differ by chance, but builds round otherwise: what is lost of the cosine has to
# grow by both, so many times and so much.
_TIMES: Final = 2.0
_LEAST: Final = 1e-4


def answers_of(base: CellRecord, new: CellRecord) -> tuple[Figure, ...]:
    """Return how right both cells are, figure by figure; none where they were not asked the same."""
    golden = _golden(base, new)
    return (*([golden] if golden is not None else []), *_accuracy(base, new))


def _golden(base: CellRecord, new: CellRecord) -> Figure | None:
    scores = [_score(record) for record in (base, new)]
    if scores[0] is None or scores[1] is None or _set(base) != _set(new):
        return None
    (right_a, asked), (right_b, asked_b) = scores[0], scores[1]
    return _shares("golden", "golden score", right_a, right_b, asked, "questions") if asked == asked_b else None


def _accuracy(base: CellRecord, new: CellRecord) -> Iterator[Figure]:
    """Yield what two tensor cells keep of the same samples, against the same reference."""
    then, now = accuracy_of(base), accuracy_of(new)
    if then is None or now is None or _asked(base, then) != _asked(new, now):
        return
    if then.cosine is not None and now.cosine is not None:
        lost = 1 - then.cosine, 1 - now.cosine
        verdict: Judgement = "slower" if _grew(*lost) else "faster" if _grew(*reversed(lost)) else "same"
        texts = cosine_text(then.cosine), cosine_text(now.cosine)
        note = "" if verdict == "same" else f"lost of 1: {lost[0]:.2g} → {lost[1]:.2g}"
        values = then.cosine, now.cosine
        yield Figure("cosine", "cosine similarity", *texts, Change(verdict, None, None, None, note), note, values)
    if then.same_top1 is not None and now.same_top1 is not None and not (then.failed or now.failed):
        right = [round(each.same_top1 * each.samples) for each in (then, now) if each.same_top1 is not None]
        top1 = _shares("same_top1", "same decisions", right[0], right[1], then.samples, "samples")
        if top1 is not None:
            yield top1


def _asked(record: CellRecord, accuracy: Accuracy) -> tuple[object, ...]:
    return record.config.prompt_hash, accuracy.samples, accuracy.reference, accuracy.tolerance


def _grew(before: float, after: float) -> bool:
    return after > _TIMES * before and after - before > _LEAST


def _shares(name: str, title: str, right_a: int, right_b: int, asked: int, what: str) -> Figure | None:
    """Compare two shares of the same things asked.

    The same number is the same. Otherwise the interval of the difference of two shares decides (Newcombe's, from
    Wilson's), as what was asked stands for others that could be.
    """
    if not asked:
        return None
    shares = [right_a / asked, right_b / asked]
    (low_a, high_a), (low_b, high_b) = (_wilson(share, asked) for share in shares)
    apart = shares[1] - shares[0]
    low = apart - math.hypot(shares[1] - low_b, high_a - shares[0])
    high = apart + math.hypot(high_b - shares[1], shares[0] - low_a)
    interval = f"{apart * 100:+.0f} points, between {low * 100:+.0f} and {high * 100:+.0f}"
    if right_a == right_b:
        change = Change("same", None, None, None, "")
    elif low > 0 or high < 0:
        change = Change("faster" if apart > 0 else "slower", None, None, None, interval)
    else:
        change = Change("cannot tell", None, None, None, f"{asked} {what} are too few ({interval})")
    note = interval if change.verdict != "same" else ""
    return Figure(name, title, f"{right_a}/{asked}", f"{right_b}/{asked}", change, note, (shares[0], shares[1]))


def _score(record: CellRecord) -> tuple[int, int] | None:
    right, slash, asked = (value_at(record, "output", "golden") or "").partition("/")
    return (int(right), int(asked)) if slash and right.isdigit() and asked.isdigit() else None


def _set(record: CellRecord) -> tuple[str | None, str]:
    return value_at(record, "output", "golden_set"), record.config.prompt_hash


def _wilson(share: float, asked: int) -> tuple[float, float]:
    square = _Z95**2 / asked
    middle = (share + square / 2) / (1 + square)
    half = _Z95 / (1 + square) * math.sqrt(share * (1 - share) / asked + square / (4 * asked))
    return middle - half, middle + half
