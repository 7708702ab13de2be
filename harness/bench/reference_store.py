"""References on disk: one folder per question, one file per engine version in it. Nothing is ever taken out.

So what an engine said last month stays beside what it says today, which shows when an update changes the text.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.bench.match import Expected, Reference, common_prefix, difference
from harness.core.ids import content_id
from harness.runners.farm_runner import PROMPT_TEXT
from harness.store.runfolder import write_atomically

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Query:
    """What a reference answers: everything that the text depends on. ``questions`` are text and longest answer.

    ``prompt_text`` is what the prompt is cut from, which counts by its hash.
    """

    model_hash: str
    prompt_text_hash: str
    precision: str
    memory: str
    prompt_tokens: int
    generate_tokens: int
    context_tokens: int
    engine: tuple[tuple[str, bool | int | str], ...]
    questions: tuple[tuple[str, int], ...]
    prompt_text: str = PROMPT_TEXT

    @property
    def key(self) -> str:
        """What tells it from every other query, 32 hex digits."""
        return content_id({name: value for name, value in asdict(self).items() if name != "prompt_text"})[:32]


@dataclass(frozen=True)
class Maker:
    """What computes references here: the engine's version, and the hash of the runner."""

    engine_version: str
    runner_hash: str

    @property
    def file_name(self) -> str:
        """The name of its file in a query's folder."""
        return f"{content_id(asdict(self))[:16]}.json"


class Entry(BaseModel):
    """One file: the reference, or why ``run_id``, which made it, could not compute it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str
    made: str
    engine_version: str
    reference: Reference | None = None
    failed: str = ""


class ReferenceStore:
    """The references of this computer, below ``root``. Whoever computes one holds :attr:`lock_file` meanwhile."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def lock_file(self) -> Path:
        """One for all: two engines at once would need twice the memory, and be slower than one after the other."""
        return self._root / "compute.lock"

    def read(self, query: Query, maker: Maker) -> Entry | None:
        """Return what is there; a file that is damaged is none."""
        entry = _read(self._root / query.key / maker.file_name)
        if entry is None or (entry.reference is not None and len(entry.reference.answers) != len(query.questions)):
            return None
        return entry

    def write(self, query: Query, maker: Maker, entry: Entry) -> None:
        """Keep an entry, whole or not at all. A disk that does not take it costs only the next computation."""
        file = self._root / query.key / maker.file_name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, entry.model_dump_json().encode())
        except OSError as error:
            _log.warning("a reference could not be kept in %s: %s", file, error.strerror or error)

    def before(self, query: Query, maker: Maker) -> Entry | None:
        """Return the newest reference of another engine version, ``None`` if there is none."""
        entries = [_read(file) for file in sorted((self._root / query.key).glob("*.json"))]
        others = [
            entry
            for entry in entries
            if entry is not None
            and entry.reference is not None
            and entry.engine_version != maker.engine_version
            and len(entry.reference.answers) == len(query.questions)
        ]
        return max(others, key=lambda entry: entry.made, default=None)


def what_changed(old: Reference, new: Reference, questions: tuple[tuple[str, int], ...]) -> str:
    """Return the first text in which two engine versions differ and where, ``""`` when all are the same."""
    names = ["the timed prompt", *(f"the answer to {question!r}" for question, _ in questions)]
    pairs: list[tuple[Expected, Expected]] = [(old.timed, new.timed), *zip(old.answers, new.answers, strict=True)]
    differing = [
        (name, one, other) for name, (one, other) in zip(names, pairs, strict=True) if one.token_ids != other.token_ids
    ]
    if not differing:
        return ""
    name, one, other = differing[0]
    common = common_prefix(one.token_ids, other.token_ids)
    how = difference(common, other, one).replace("the reference", "before it said")
    return f"{len(differing)} of {len(pairs)} texts; {name}: {how}"


def _read(file: Path) -> Entry | None:
    try:
        return Entry.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        _log.warning("%s is no reference and is made anew: %s", file, str(error).splitlines()[0])
        return None


def as_entry(run_id: str, made: str, maker: Maker, result: Reference | str) -> Entry:
    """Return the entry of a result: a reference, or the reason why there is none."""
    fields: dict[str, Any] = {"failed": result} if isinstance(result, str) else {"reference": result}
    return Entry(run_id=run_id, made=made, engine_version=maker.engine_version, **fields)
