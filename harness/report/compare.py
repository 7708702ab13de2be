"""What changed from one run to another: cell by cell, figure by figure, each with a verdict that respects noise. Pure.

A cell that was ``ok`` and that the product fails now is ``broken``: a regression like a slower one. What the lab spoilt
(``noisy``, a lost phone) says nothing. Where the circumstances explain a change (the phone began hotter, say), the
change is shown and not called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from harness.core.reasons import Fault, Verdict
from harness.report.ab import Pair, change_of_turns, pairs_of
from harness.report.change import ALPHA, DEFAULT_BOUND, Change, change_of
from harness.report.compare_answers import answers_of
from harness.report.compare_figures import (
    MAIN,
    MEASURES,
    Figure,
    figure_of,
    figure_with,
    loss_of,
    main_measure,
    middle_of,
)
from harness.report.compare_match import Match, Measured, Unmatched, match, measured_of
from harness.report.text import celsius, one_line
from harness.store.schema import CellRecord

State = Literal["compared", "broken", "fixed", "still", "cannot tell"]
Check = Literal["", "confirmed", "refuted", "unverified"]

START_MARGIN_C: Final = 5.0
# Versions of the harness from which on a figure means something else, by the figure's name. There is none so far: the
# first release is still to come.
CHANGED_IN: Final[Mapping[str, tuple[str, ...]]] = {}


@dataclass(frozen=True)
class Mark:
    """A circumstance that differs. Changes that it ``explains`` are not called."""

    text: str
    explains: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Compared:
    """One cell in both runs.

    Attributes:
        state: ``compared`` when both are ok; ``broken``: it was ok and the product fails it now; ``fixed``: the other
            way; ``still``: the product fails it in both; ``cannot tell``: lab, plan or harness spoilt one of them.
        words: how both ended, where that is not ok; else empty.
        check: what measuring again said of a regression; empty as long as nobody did.
        checked: how it was measured again, or why it could not be.
    """

    base: CellRecord
    new: CellRecord
    state: State
    words: str = ""
    figures: tuple[Figure, ...] = ()
    differs: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    check: Check = ""
    checked: str = ""

    @property
    def worse(self) -> tuple[Figure, ...]:
        """The figures that got worse."""
        return tuple(figure for figure in self.figures if figure.worse)

    @property
    def regression(self) -> bool:
        """Whether it got worse, provably: measuring again may have refuted it."""
        return self.check != "refuted" and (self.state == "broken" or bool(self.worse))

    @property
    def better(self) -> bool:
        """Whether it is better, and nothing of it worse."""
        faster = any(figure.change.verdict == "faster" for figure in self.figures)
        return not self.regression and (self.state == "fixed" or faster)

    @property
    def undecided(self) -> bool:
        """Whether its speed could not be judged."""
        main = self.main
        return self.state == "cannot tell" or (main is not None and main.change.verdict == "cannot tell")

    @property
    def main(self) -> Figure | None:
        """What the cell is about: decode speed, or the latency of a model that is no language model."""
        return next((figure for figure in self.figures if figure.name in MAIN), None)

    def figure(self, name: str) -> Figure | None:
        """Return a figure by its name."""
        return next((figure for figure in self.figures if figure.name == name), None)

    @property
    def badness(self) -> tuple[int, float]:
        """What cells are sorted by, the worst first."""
        if self.regression:
            # A ratio says the same of a speed and of a time once it is turned round.
            losses = [loss_of(figure) for figure in self.worse]
            return (0, 0.0) if self.state == "broken" else (1, -max(losses, default=0.0))
        order = 2 if self.undecided else 4 if self.better else 3
        main = self.main
        return order, -(loss_of(main) if main is not None else 0.0)


@dataclass(frozen=True)
class Comparison:
    """Two runs, or two builds of one run; ``cells`` the worst first."""

    base: str
    new: str
    bound: float
    cells: tuple[Compared, ...]
    unmatched: tuple[Unmatched, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def regressions(self) -> tuple[Compared, ...]:
        """The cells that got worse."""
        return tuple(cell for cell in self.cells if cell.regression)

    @property
    def by_chance(self) -> float:
        """How many figures may be called worse by chance alone, at the most: half of all wrong calls."""
        judged = sum(figure.change.ci95 is not None for cell in self.cells for figure in cell.figures)
        return judged * ALPHA / 2

    def with_cells(self, cells: Iterable[Compared], *notes: str) -> Comparison:
        """Return it with other cells, sorted again."""
        return replace(self, cells=sort_worst_first(cells), notes=(*self.notes, *notes))


def changed(base: CellRecord, new: CellRecord, *, bound: float = DEFAULT_BOUND) -> Change:
    """Compare the decode speed of two records that are both ok; of models that are no language models the latency."""
    measure = main_measure(base)
    both_ok = base.verdict is Verdict.OK and new.verdict is Verdict.OK
    if not both_ok or measure.repeats is None:
        return Change("cannot tell", None, None, None, "one of the records is not ok")
    higher = measure.higher_is_better
    return change_of(measure.repeats(base), measure.repeats(new), bound=bound, higher_is_better=higher)


def compare_runs(
    base: Iterable[CellRecord],
    new: Iterable[CellRecord],
    *,
    names: tuple[str, str] = ("base", "new"),
    bound: float = DEFAULT_BOUND,
    across: bool = False,
    between: Mapping[str, float] | None = None,
    changed_in: Mapping[str, Sequence[str]] = CHANGED_IN,
) -> Comparison:
    """Compare two runs.

    Args:
        base: all attempts of the run from before, in the order written.
        new: those of the run of now.
        names: what the runs are called.
        bound: a change by less than this share is no change for anybody.
        across: compare phones of the same model with each other, too.
        between: by a figure's name how far runs differ that nothing changed between, where history tells.
        changed_in: versions of the harness from which on a figure means something else.
    """
    matches, unmatched = match(measured_of(base), measured_of(new), across=across)
    cells = [_judge(one, bound, between or {}, changed_in) for one in matches]
    return Comparison(*names, bound, sort_worst_first(cells), tuple(unmatched))


def compare_records(base: CellRecord, new: CellRecord, bound: float = DEFAULT_BOUND) -> Compared:
    """Compare two attempts that are known to be of the same cell."""
    return _judge(Match(Measured(base, (base,)), Measured(new, (new,))), bound, {}, CHANGED_IN)


def compare_builds(
    records: Iterable[CellRecord],
    *,
    names: tuple[str, str] = ("A", "B"),
    bound: float = DEFAULT_BOUND,
    alike: bool = False,
) -> Comparison:
    """Compare the two builds of a run with ``--ab``: B against A, what drifted meanwhile taken out.

    ``alike``: both are the same files, which is told beside.
    """
    notes = ("both builds are the same files: any change that is called here is a wrong call",) if alike else ()
    cells = sort_worst_first(compare_pair(pair, bound) for pair in pairs_of(records))
    return Comparison(*names, bound, cells, notes=notes)


def compare_pair(pair: Pair, bound: float = DEFAULT_BOUND) -> Compared:
    """Compare the turns of two builds. Drift cancels, so temperatures need not be the same."""
    a, b = (_whole(pair.of(arm)) for arm in ("A", "B"))
    if a is None or b is None:
        only = (a or b or Measured(pair.records[0], pair.records)).record
        return Compared(only, only, "cannot tell", "only one of the builds has been run")
    state, words = _state(a.record, b.record)
    marks = () if pair.done else ("not all turns are done",)
    if state != "compared":
        return Compared(a.record, b.record, state, words, marks=marks)
    figures: list[Figure] = []
    arms = [record.ab.arm for record in pair.records if record.ab is not None]
    for measure in MEASURES:
        values = [measure.one(record) if record.verdict is Verdict.OK else None for record in pair.records]
        sides = [middle_of([value for value, arm in zip(values, arms, strict=True) if arm == which]) for which in "AB"]
        if sides[0] is None and sides[1] is None:
            continue
        change = change_of_turns(arms, values, bound=bound, higher_is_better=measure.higher_is_better)
        figures.append(figure_with(measure, sides[0], sides[1], change))
    figures += answers_of(a.record, b.record)
    return Compared(a.record, b.record, state, words, tuple(figures), marks=marks)


def sort_worst_first(cells: Iterable[Compared]) -> tuple[Compared, ...]:
    """Return cells in the order in which people should look at them."""
    return tuple(sorted(cells, key=lambda cell: cell.badness))


def _whole(turns: tuple[CellRecord, ...]) -> Measured | None:
    if not turns:
        return None
    ok = tuple(turn for turn in turns if turn.verdict is Verdict.OK)
    broken = next((turn for turn in turns if turn.fault is Fault.PRODUCT), None)
    return Measured(broken or (ok or turns)[-1], ok or turns)


def _judge(one: Match, bound: float, between: Mapping[str, float], changed_in: Mapping[str, Sequence[str]]) -> Compared:
    base, new = one.base.record, one.new.record
    state, words = _state(base, new)
    if state != "compared":
        return Compared(base, new, state, words, differs=one.differs, marks=one.marks)
    marks = _marks(base, new)
    figures: list[Figure] = []
    for measure in MEASURES:
        figure = figure_of(measure, one.base.records, one.new.records, bound, between.get(measure.name))
        if figure is None:
            continue
        version = _redefined(changed_in.get(measure.name, ()), base.harness_version, new.harness_version)
        if version:
            why = f"mnn-farm {version} defines it otherwise"
            figure = replace(figure, change=Change("cannot tell", None, None, None, why))
        elif measure.warm:
            figure = _weighed(figure, marks)
        figures.append(figure)
    texts = (*one.marks, *(mark.text for mark in marks))
    return Compared(base, new, state, words, (*figures, *answers_of(base, new)), one.differs, texts)


def _state(base: CellRecord, new: CellRecord) -> tuple[State, str]:
    ended = [record.reason or "ok" for record in (base, new)]
    words = " → ".join(one_line(word) for word in ended)
    faults = base.fault, new.fault
    if faults == (None, None):
        return "compared", ""
    if any(fault not in (None, Fault.PRODUCT) for fault in faults):
        return "cannot tell", words
    if faults == (Fault.PRODUCT, Fault.PRODUCT):
        return "still", words
    return ("broken" if base.fault is None else "fixed"), words


def _marks(base: CellRecord, new: CellRecord) -> list[Mark]:
    """Return what differs in the circumstances of two cells that are both ok."""
    then, now = base.thermal, new.thermal
    found: list[Mark] = []
    if then is None or now is None:
        return found
    if then.start_c is not None and now.start_c is not None and abs(now.start_c - then.start_c) > START_MARGIN_C:
        hotter = now.start_c > then.start_c
        span = f"{celsius(then.start_c)} → {celsius(now.start_c)} °C, more than {START_MARGIN_C:g} °C apart"
        text = f"began {'hotter' if hotter else 'cooler'}: {span}"
        found.append(Mark(text, frozenset({"slower" if hotter else "faster"})))
    if then.plugged is not None and now.plugged is not None and then.plugged != now.plugged:
        words = ("unplugged", "plugged in")
        text = f"{words[then.plugged]} → {words[now.plugged]}"
        found.append(Mark(text, frozenset({"slower", "faster"})))
    # In a sustained cell throttling is the result.
    sustained = base.config.kind == "sustained"
    if not sustained and None not in (then.throttled, now.throttled) and then.throttled != now.throttled:
        found.append(Mark(f"throttled {'now' if now.throttled else 'before'}", frozenset({"slower", "faster"})))
    return found


def _weighed(figure: Figure, marks: Sequence[Mark]) -> Figure:
    """Return the figure with no verdict where its change is explained by something else than the build."""
    explained = [mark.text for mark in marks if figure.change.verdict in mark.explains]
    if not explained:
        return figure
    change = replace(figure.change, verdict="cannot tell", why=f"{figure.change.verdict}, but {explained[0]}")
    return replace(figure, change=change)


def _redefined(versions: Sequence[str], then: str, now: str) -> str:
    """Return the version between two of the harness that gave a figure another meaning; empty if none did."""
    low, high = sorted((_version(then), _version(now)))
    return next((version for version in versions if low < _version(version) <= high), "")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in text.split("+")[0].split(".")[:3])
