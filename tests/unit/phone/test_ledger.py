from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import PhoneLostError, ShellError
from harness.core.transport import ShellResult
from harness.phone.ledger import (
    Entry,
    LedgerDamagedError,
    LedgerFile,
    LedgerRefusedError,
    amended,
    encode_ledger,
    parse_ledger,
)

ENTRIES = (
    Entry("setting", "global/a", "0", "7", "desk", "2026-01-02T03:04:05Z"),
    Entry("setting", "system/b", None, "1", "desk", "2026-01-02T03:04:06Z"),
)


@pytest.fixture
def file(phone: Any) -> LedgerFile:
    return LedgerFile(phone, phone.deadline())


def test_entries_come_back_in_their_order() -> None:
    assert parse_ledger(encode_ledger(ENTRIES)) == ENTRIES


def test_one_entry_is_amended_and_the_others_stay() -> None:
    changed = amended(ENTRIES, "setting system/b", old="3")
    assert changed[0] == ENTRIES[0]
    assert (changed[1].old, changed[1].new) == ("3", "1")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"\xff\xfe",
        b'{"schema": 1}',
        b'{"schema": 2, "entries": []}',
        b'{"schema": 1, "entries": [3]}',
        b'{"schema": 1, "entries": [{"kind": "setting"}]}',
        encode_ledger(ENTRIES).replace(b'"0"', b"0"),
        encode_ledger(ENTRIES).replace(b'"7"', b'"7\\nreboot"'),
        encode_ledger(ENTRIES).replace(b'"7"', b'"\\ud800"'),
        encode_ledger(ENTRIES).replace(b'"desk"', b"null"),
        b'{"schema":' * 100_000,
    ],
)
def test_what_is_no_ledger_is_told(data: bytes) -> None:
    with pytest.raises(LedgerDamagedError):
        parse_ledger(data)


def test_a_phone_without_a_ledger_owes_nothing(file: LedgerFile) -> None:
    assert file.read() == ((), "")


def test_what_is_written_is_read_and_goes_when_nothing_is_owed(phone: Any, file: LedgerFile) -> None:
    file.write(ENTRIES)
    assert file.read() == (ENTRIES, "")
    file.write(ENTRIES[:1])
    assert file.read() == (ENTRIES[:1], "")
    file.write(())
    assert file.read() == ((), "")
    assert list(Path(phone.base_dir).iterdir()) == []


def test_a_damaged_ledger_is_set_aside_once(phone: Any, file: LedgerFile) -> None:
    phone.ledger.parent.mkdir()
    phone.ledger.write_bytes(b'{"schema": 1, "entr')
    entries, note = file.read()
    assert entries == ()
    assert "was damaged" in note
    assert file.read() == ((), "")
    assert phone.ledger.with_name("owed.json.damaged").read_bytes() == b'{"schema": 1, "entr'


def test_a_ledger_that_cannot_be_read_is_set_aside(phone: Any, file: LedgerFile) -> None:
    phone.ledger.mkdir(parents=True)
    entries, note = file.read()
    assert (entries, "Is a directory" in note) == ((), True)
    assert file.read() == ((), "")


@pytest.mark.parametrize("said", [b"\xf0\x9fledger\n{}\nend\n", b"ledger\n{", b"", b"ledger\n"])
def test_a_connection_that_garbles_does_not_make_a_good_ledger_damaged(
    phone: Any, file: LedgerFile, said: bytes
) -> None:
    file.write(ENTRIES)
    phone.refuses["sh -c [ -e"] = ShellResult(0, said, b"")
    with pytest.raises(ShellError):
        file.read()
    phone.refuses.clear()
    assert file.read() == (ENTRIES, "")


def test_a_phone_that_takes_no_file_says_why(phone: Any, file: LedgerFile) -> None:
    phone.refuses["sh -c mkdir"] = ShellResult(1, b"", b"cat: write: No space left on device\n")
    with pytest.raises(LedgerRefusedError, match=r"owed.json could not be written \(cat: write: No space left on dev"):
        file.write(ENTRIES)


def test_a_write_that_fails_leaves_the_old_ledger(phone: Any, file: LedgerFile) -> None:
    file.write(ENTRIES)
    Path(f"{phone.ledger}.new").mkdir()  # cat cannot write here
    with pytest.raises(LedgerRefusedError):
        file.write(ENTRIES[:1])
    assert file.read() == (ENTRIES, "")


def test_a_lost_phone_is_no_refusal(phone: Any, file: LedgerFile) -> None:
    phone.lost_after = 0
    with pytest.raises(PhoneLostError):
        file.write(ENTRIES)


def test_the_file_is_for_people_too(phone: Any, file: LedgerFile) -> None:
    file.write(ENTRIES[:1])
    assert json.loads(phone.ledger.read_bytes())["entries"][0] == {
        "kind": "setting",
        "key": "global/a",
        "old": "0",
        "new": "7",
        "host": "desk",
        "time": "2026-01-02T03:04:05Z",
    }
