"""From a host's spool into the controller's run folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.core.errors import ConfigError
from harness.lab import spool as spool_module
from harness.lab.keeper import Keeper
from harness.lab.ledger import Ledger
from harness.lab.matching import Wanted
from harness.lab.order import Item, Order, RawFile
from harness.lab.spool import SMALL_BYTES, Spool
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

A1, B1 = "a1" * 32, "b1" * 32
PLANNED = {A1: Wanted(A1, "a", 0, {"a": A1, "b": B1}), B1: Wanted(B1, "b", 0, {"a": A1, "b": B1})}
Make = Callable[..., CellRecord]


def order(order_id: str, phone: str, planned: str | None, cells: dict[str, str]) -> Order:
    """An order as far as a spool looks at it; ``cells``: the planned cell by the id that it has on the phone."""
    work = tuple(SimpleNamespace(ran_id=ran, cell_id=cell) for ran, cell in cells.items())
    facts = SimpleNamespace(id=order_id, run_id="run-1", phone_id=phone, planned_phone=planned, work=work)
    return cast("Order", facts)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run")


def keeper(folder: RunFolder) -> Keeper:
    return Keeper(folder, "run-1", PLANNED, Ledger(folder.records()))


def spooled(root: Path, record: CellRecord, what: Order, files: dict[str, bytes] | None = None) -> Spool:
    """A spool with one finished attempt."""
    spool = Spool.create(root, what)
    host = RunFolder(spool.path)
    if files is not None:
        raw = host.raw_dir(record.cell_id, 1)
        for name, data in files.items():
            (raw / name).parent.mkdir(parents=True, exist_ok=True)
            (raw / name).write_bytes(data)
        nulls = {key: why for key, why in record.nulls.items() if key != "raw"}
        record = record.model_copy(update={"raw": host.relative(raw), "nulls": nulls})
    host.append(record)
    return spool


def item_of(spool: Spool) -> Item:
    item = spool.item(0)
    assert item is not None
    return item


def no_more(path: str, offset: int) -> bytes:
    raise AssertionError(f"{path} was asked for")


def test_a_record_and_its_raw_output_come_as_they_were(tmp_path: Path, folder: RunFolder, record: Make) -> None:
    big = b"x" * (SMALL_BYTES + 5)
    spool = spooled(
        tmp_path / "host", record(A1, "a"), order("o-1", "a", None, {A1: A1}), {"events": b"{}", "s/big": big}
    )
    item = item_of(spool)
    assert (item.small, item.raw) == ({"events": b"{}"}, (RawFile("events", 2), RawFile("s/big", len(big))))
    kept, why = keeper(folder).take(item, lambda path, offset: spool.read(0, path, offset, 1_000_000))
    assert (kept, why) == (next(folder.records()), "")
    assert kept is not None
    assert (kept.raw, kept.attempt, kept.planned_phone) == (f"raw/{A1[:12]}/1/", 1, None)
    assert (folder.path / kept.raw / "s/big").read_bytes() == big
    assert sorted(path.name for path in (folder.path / "raw").iterdir()) == [A1[:12]]


def test_what_comes_twice_is_kept_once(tmp_path: Path, folder: RunFolder, record: Make) -> None:
    item = item_of(spooled(tmp_path / "host", record(A1, "a"), order("o-1", "a", None, {A1: A1})))
    assert keeper(folder).take(item, no_more)[1] == ""
    for again in (keeper(folder), keeper(folder)):  # controllers that begin anew
        assert again.take(item, no_more) == (None, "it is there already")
    assert len(list(folder.records())) == 1


def test_a_moved_cell_counts_for_the_phone_that_it_was_planned_for(
    tmp_path: Path, folder: RunFolder, record: Make
) -> None:
    item = item_of(spooled(tmp_path / "host", record(B1, "b"), order("o-2", "b", "a", {B1: A1}), {"events": b"{}"}))
    kept, _ = keeper(folder).take(item, no_more)
    assert kept is not None
    assert (kept.cell_id, kept.phone.id, kept.planned_phone, kept.raw) == (A1, "b", "a", f"raw/{A1[:12]}/1/")


def test_a_second_attempt_has_the_next_number_and_a_folder_of_its_own(
    tmp_path: Path, folder: RunFolder, record: Make
) -> None:
    keep = keeper(folder)
    keep.take(
        item_of(spooled(tmp_path / "h", record(A1, "a", final=False), order("o-1", "a", None, {A1: A1}))), no_more
    )
    second = spooled(tmp_path / "h", record(A1, "a", started=7), order("o-2", "a", None, {A1: A1}), {"events": b""})
    kept, _ = keep.take(item_of(second), no_more)
    assert kept is not None
    assert (kept.attempt, kept.raw) == (2, f"raw/{A1[:12]}/2/")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"record": b"{}"}, "it is no record"),
        ({"cell_id": "c" * 64}, "it is of no cell of this run"),
        ({"cell_id": B1}, "it does not say whose cell it is"),
        ({"phone_id": "b"}, "it is of another phone than it says"),
        ({"planned_phone": "b"}, "it is of another phone than it says"),
        ({"planned_phone": "a"}, "it does not say whose cell it is"),
    ],
)
def test_what_does_not_fit_together_is_dropped(
    tmp_path: Path, folder: RunFolder, record: Make, change: dict[str, Any], why: str
) -> None:
    good = item_of(spooled(tmp_path / "host", record(A1, "a"), order("o-1", "a", None, {A1: A1})))
    kept, said = keeper(folder).take(replace(good, **change), no_more)
    assert kept is None
    assert said.startswith(why)
    assert list(folder.records()) == []


@pytest.mark.parametrize("path", ["../../results.jsonl", "/etc/passwd", "a/../../../x"])
def test_a_host_cannot_write_outside_of_the_attempts_folder(
    tmp_path: Path, folder: RunFolder, record: Make, path: str
) -> None:
    good = item_of(spooled(tmp_path / "host", record(A1, "a"), order("o-1", "a", None, {A1: A1}), {"events": b"{}"}))
    with pytest.raises(ConfigError, match="no plain path"):
        keeper(folder).take(replace(good, raw=(RawFile(path, 1),), small={path: b"!"}), no_more)
    assert list(folder.path.rglob("*")) == [folder.path / "raw"]


def test_raw_output_that_breaks_off_is_not_kept_as_whole(tmp_path: Path, folder: RunFolder, record: Make) -> None:
    good = item_of(spooled(tmp_path / "host", record(A1, "a"), order("o-1", "a", None, {A1: A1}), {"events": b"{}"}))
    with pytest.raises(ConfigError, match="not as long as the host said"):
        keeper(folder).take(replace(good, raw=(RawFile("events", 9),), small={}), lambda path, offset: b"{}"[offset:])
    assert list(folder.records()) == []


def test_what_was_too_much_to_send_is_told_in_the_record(
    tmp_path: Path, folder: RunFolder, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "MOST_RAW_BYTES", 3)
    files = {"events": b"{}", "huge": b"1234"}
    item = item_of(spooled(tmp_path / "host", record(A1, "a"), order("o-1", "a", None, {A1: A1}), files))
    kept, _ = keeper(folder).take(item, no_more)
    assert kept is not None
    assert [(finding.code, finding.title) for finding in kept.findings] == [
        ("raw_cut", "1 files of raw output stayed on the host: they are too many or too large")
    ]


def test_what_was_taken_is_dropped_on_the_host_and_an_empty_run_too(tmp_path: Path, record: Make) -> None:
    spool = spooled(tmp_path / "host", record(A1, "a"), order("o-1", "a", None, {A1: A1}), {"events": b"{}"})
    assert spool.item(1) is None
    assert (spool.path / "raw" / A1[:12] / "1").is_dir()  # nothing new came, so nothing was looked at
    RunFolder(spool.path).append(record(A1, "a", started=9))
    assert item_of(replace(spool)).number == 0
    assert spool.item(1) is not None
    assert not (spool.path / "raw" / A1[:12] / "1").exists()
    spool.remove()
    assert list((tmp_path / "host").iterdir()) == []


def test_only_spools_of_dead_processes_are_taken_over(tmp_path: Path, record: Make) -> None:
    spool = spooled(tmp_path / "host", record(A1, "a"), order("o-1", "a", None, {A1: A1}))
    assert Spool.adopt(tmp_path / "host", "run-1") == []
    assert spool.lock is not None
    spool.lock.release()  # as the end of its process does
    assert [found.path for found in Spool.adopt(tmp_path / "host", "run-1")] == [spool.path]
