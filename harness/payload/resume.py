"""Where a push begins: at what an earlier one left, as far as it is the beginning of what is wanted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from harness.payload.folder import PayloadFile, PayloadFolder
from harness.payload.probe_files import HashLine


@dataclass(frozen=True)
class Remaining:
    """A file and where to go on with it; at its size there is nothing left to send."""

    file: PayloadFile
    offset: int


@dataclass(frozen=True)
class Beginning:
    """What to do with what is there.

    Attributes:
        drop: files that do not belong.
        files: every wanted file with its offset, those first that are there already.
    """

    drop: tuple[str, ...]
    files: tuple[Remaining, ...]

    @property
    def kept_bytes(self) -> int:
        """Bytes that need not be sent again."""
        return sum(one.offset for one in self.files)


def begin(
    payload: PayloadFolder, found: Collection[HashLine], sha256_of_start: Callable[[PayloadFile, int], str]
) -> Beginning:
    """Decide where to go on.

    A part counts only when its hash is that of as many bytes at the start of the local file: it may be of an older
    file of that name, or have been lost in a power cut.

    Args:
        payload: what is wanted.
        found: what is there, each with the hash of all of it.
        sha256_of_start: the hash of the first so many bytes of a local file; asked only where it is needed.
    """
    there = {line.path: line for line in found}
    wanted = {file.path for file in payload.files}
    files = [Remaining(file, _offset(file, there.get(file.path), sha256_of_start)) for file in payload.files]
    return Beginning(
        drop=tuple(sorted(there.keys() - wanted)),
        files=tuple(sorted(files, key=lambda one: (one.offset < one.file.size, one.file.path))),
    )


def _offset(file: PayloadFile, part: HashLine | None, sha256_of_start: Callable[[PayloadFile, int], str]) -> int:
    if part is None or not part.size or part.size > file.size:
        return 0
    wanted = file.sha256 if part.size == file.size else sha256_of_start(file, part.size)
    return part.size if part.sha256 == wanted else 0
