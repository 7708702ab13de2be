"""What we owe a phone: settings we changed and their values before, in a file on the phone itself.

The file is written before the first change and removed when all is back, so that whoever sees the phone next, from any
computer, can put back what a run that was killed could not. It is replaced as a whole: a reader sees the old list or
the new one, never half of one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace

from harness.core.deadline import Deadline
from harness.core.errors import ShellError
from harness.core.transport import ShellResult, Transport

FILE = "owed.json"
_SCHEMA = 1
# A frame, so that a connection that adds or loses bytes does not make us believe that a good file is damaged.
_BEGIN, _END = b"ledger\n", b"\nend\n"
_ABSENT, _UNREADABLE = 3, 4
_READ = f'[ -e "$1" ] || exit {_ABSENT}; echo ledger; cat "$1" || exit {_UNREADABLE}; echo; echo end'
# A phone that loses power just after the rename must not be left with an empty file; fsync came with Android 8.
_WRITE = 'mkdir -p "$2" && cat >"$1.new" && { fsync "$1.new" 2>/dev/null; mv -f "$1.new" "$1"; }'


@dataclass(frozen=True)
class Entry:
    """One change that is owed. ``old`` and ``new`` are the values as the phone says them; ``None``: there was none."""

    kind: str
    key: str
    old: str | None
    new: str | None
    host: str
    time: str

    @property
    def name(self) -> str:
        """Name for people."""
        return f"{self.kind} {self.key}"


class LedgerDamagedError(ValueError):
    """The file is no ledger of ours."""


class LedgerRefusedError(Exception):
    """The phone does not take the file, so nothing may be changed on it."""


def parse_ledger(data: bytes) -> tuple[Entry, ...]:
    """Return the entries in the order in which they were made.

    Raises:
        LedgerDamagedError: this is no ledger.
    """
    try:
        held = json.loads(data)
        if held["schema"] != _SCHEMA:
            raise LedgerDamagedError(f"its schema is {held['schema']!r}, not {_SCHEMA}")
        return tuple(_entry(item) for item in held["entries"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, LedgerDamagedError):
            raise
        raise LedgerDamagedError(f"{type(error).__name__}: {error}") from error


def _entry(item: dict[str, object]) -> Entry:
    values = {field.name: item[field.name] for field in fields(Entry)}
    for name, value in values.items():
        absent = value is None and name in ("old", "new")
        if not absent and not (isinstance(value, str) and value.isprintable()):
            raise LedgerDamagedError(f"{name} is {value!r}")
    return Entry(**values)  # type: ignore[arg-type]


def encode_ledger(entries: Sequence[Entry]) -> bytes:
    """Return the file's content."""
    return json.dumps({"schema": _SCHEMA, "entries": [asdict(entry) for entry in entries]}, indent=1).encode()


def amended(entries: Sequence[Entry], name: str, **changes: str | None) -> tuple[Entry, ...]:
    """Return the entries with the one of that name changed."""
    return tuple(
        replace(entry, **changes) if entry.name == name else entry  # type: ignore[arg-type]
        for entry in entries
    )


class LedgerFile:
    """The file on one phone.

    All methods raise :class:`~harness.core.errors.PhoneError` when the phone is lost or its connection garbles.
    """

    def __init__(self, transport: Transport, deadline: Deadline) -> None:
        self._transport = transport
        self._deadline = deadline
        self._folder = transport.base_dir
        self.path = f"{transport.base_dir}/{FILE}"

    def read(self) -> tuple[tuple[Entry, ...], str]:
        """Return the entries and a note; a damaged file is set aside, so that it is looked at once."""
        argv = ["sh", "-c", _READ, "sh", self.path]
        there = self._run(argv)
        if there.exit_code == _ABSENT:
            return (), ""
        try:
            return self._entries_in(there, argv), ""
        except LedgerDamagedError as error:
            aside = f"{self.path}.damaged"
            self._run(["mv", "-f", self.path, aside])
            return (), f"{self.path} was damaged ({error}) and is set aside as {aside}: what it owed is not put back"

    def _entries_in(self, there: ShellResult, argv: list[str]) -> tuple[Entry, ...]:
        said = there.stdout
        if there.exit_code == _UNREADABLE:  # written by root, say
            raise LedgerDamagedError(there.stderr.decode("utf-8", "replace").strip()[-200:])
        if there.exit_code != 0 or not (said.startswith(_BEGIN) and said.endswith(_END)):
            raise ShellError(self._transport.name, argv, there.exit_code, said[:200], there.stderr)
        return parse_ledger(said[len(_BEGIN) : -len(_END)])

    def write(self, entries: Sequence[Entry]) -> None:
        """Replace the entries; without any the file goes.

        Raises:
            LedgerRefusedError: the phone does not take it.
        """
        if entries:
            done = self._run(["sh", "-c", _WRITE, "sh", self.path, self._folder], stdin=encode_ledger(entries))
        else:
            done = self._run(["rm", "-f", self.path, f"{self.path}.new"])
        if done.exit_code != 0:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-200:]
            raise LedgerRefusedError(f"{self.path} could not be written ({said or f'exit code {done.exit_code}'})")

    def _run(self, argv: list[str], stdin: bytes = b"") -> ShellResult:
        return self._transport.shell(argv, deadline=self._deadline, stdin=stdin)
