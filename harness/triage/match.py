"""Matches lines against rules, one line at a time, in bounded memory whatever the log's length. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from harness.triage.entry import Entry
from harness.triage.rule import Pattern, Rule, plain_name
from harness.triage.scan import Scanner

# So many lines are kept as evidence of one pattern; counting ends at the second number.
_KEPT = 5
_ENOUGH = 500


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    """Return an expression, compiled once: the rules have about as many as ``re`` itself remembers."""
    return re.compile(regex)


@dataclass(eq=False)
class _Seen:
    """What one pattern has met so far. ``places`` are the last line in each file that matched."""

    pattern: Pattern
    regex: re.Pattern[str]
    count: int = 0
    kept: list[Entry] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    def look(self, entry: Entry, *, places: bool) -> bool:
        """Look at one line; return whether it matched."""
        if self.count >= _ENOUGH and not places:
            return False
        if self.pattern.kinds and entry.kind not in self.pattern.kinds:
            return False
        if self.pattern.tags and entry.tag is not None and entry.tag not in self.pattern.tags:
            return False
        match = self.regex.search(entry.text)
        if match is None:
            return False
        self.count += 1
        self.places[entry.source] = entry.line
        if len(self.kept) < _KEPT:
            self.kept.append(entry)
        for name, value in match.groupdict().items():
            if value:
                self.groups.setdefault(plain_name(name), value)
        return True

    @property
    def met(self) -> bool:
        return self.count >= self.pattern.count


@dataclass(frozen=True)
class Hit:
    """A rule that matched: the lines that it stands on, and what its groups caught."""

    rule: Rule
    entries: tuple[Entry, ...]
    groups: Mapping[str, str]


class _Progress:
    """How far one rule is."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.any, self.all, self.none = (
            [_Seen(pattern, _compiled(pattern.regex)) for pattern in patterns]
            for patterns in (rule.any, rule.all, rule.none)
        )
        self._near: tuple[list[Entry], dict[str, str]] | None = None
        self._last: dict[int, tuple[Entry, dict[str, str]]] = {}

    def seen(self) -> Iterable[_Seen]:
        return (*self.any, *self.all, *self.none)

    def look(self, seen: _Seen, entry: Entry) -> None:
        near = self.rule.within is not None and seen in self.all
        if seen.look(entry, places=near) and near and self._near is None:
            self._together(self.all.index(seen), entry, seen)

    def _together(self, place: int, entry: Entry, seen: _Seen) -> None:
        """Remember the first time that all patterns of ``all`` stood near each other."""
        match = seen.regex.search(entry.text)
        caught = (
            {} if match is None else {plain_name(name): value for name, value in match.groupdict().items() if value}
        )
        self._last[place] = (entry, caught)
        limit = self.rule.within or 0
        if len(self._last) == len(self.all) and all(
            other.source == entry.source and abs(entry.line - other.line) <= limit for other, _ in self._last.values()
        ):
            pairs = [self._last[index] for index in sorted(self._last)]
            self._near = (
                [one for one, _ in pairs],
                {key: value for _, groups in pairs for key, value in groups.items()},
            )

    def hit(self) -> Hit | None:
        if any(seen.met for seen in self.none):
            return None
        if self.all and not (all(seen.met for seen in self.all) and (self.rule.within is None or self._near)):
            return None
        met = [seen for seen in self.any if seen.met]
        if self.any and not met:
            return None
        used = [*self.all, *met] if self._near is None else met
        entries = list(self._near[0]) if self._near is not None else []
        groups: dict[str, str] = dict(self._near[1]) if self._near is not None else {}
        # What is unusual first: one line of each pattern, then the rest.
        entries += [seen.kept[0] for seen in used] + [entry for seen in used for entry in seen.kept[1:]]
        for seen in used:
            for name, value in seen.groups.items():
                groups.setdefault(name, value)
        return Hit(self.rule, tuple(entries), groups)


class Matcher:
    """All rules over a stream of lines. Lines come with the needles that are in them (:meth:`take`) or without."""

    def __init__(self, rules: Sequence[Rule], extra_needles: Sequence[str] = ()) -> None:
        self._all = [_Progress(rule) for rule in rules]
        needles: dict[str, int] = {needle: index for index, needle in enumerate(dict.fromkeys(extra_needles))}
        self._by_needle: dict[int, list[tuple[_Progress, _Seen]]] = {}
        for progress in self._all:
            for seen in progress.seen():
                for needle in seen.pattern.needles:
                    index = needles.setdefault(needle, len(needles))
                    self._by_needle.setdefault(index, []).append((progress, seen))
        self.scanner = Scanner(needles)

    def take(self, entry: Entry, needles: Iterable[int]) -> None:
        """Look at one line that holds these needles."""
        done: set[int] = set()
        for needle in needles:
            for progress, seen in self._by_needle.get(needle, ()):
                if id(seen) not in done:
                    done.add(id(seen))
                    progress.look(seen, entry)

    def take_text(self, entry: Entry) -> None:
        """Look at one line that a reader made."""
        self.take(entry, self.scanner.needles_in(entry.text.encode("utf-8", "replace")))

    def hits(self) -> list[Hit]:
        """Return the rules that match what was seen, in the rules' order; those that need others come after them."""
        found = {progress.rule.id: hit for progress in self._all if (hit := progress.hit()) is not None}
        while True:
            lacking = {name for name, hit in found.items() if any(need not in found for need in hit.rule.needs)}
            if not lacking:
                break
            found = {name: hit for name, hit in found.items() if name not in lacking}
        return [_with_needed(hit, found) for hit in found.values()]


def _with_needed(hit: Hit, found: Mapping[str, Hit]) -> Hit:
    if not hit.rule.needs:
        return hit
    others = [found[name] for name in hit.rule.needs]
    groups = dict(hit.groups)
    for other in others:
        for name, value in other.groups.items():
            groups.setdefault(name, value)
    entries = (*hit.entries[:3], *(entry for other in others for entry in other.entries[:2]))
    return Hit(hit.rule, entries, groups)
