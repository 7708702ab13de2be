"""The store, on a phone that is a dictionary: path to bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import ConfigError, DeadlineError, PhoneLostError, ShellError, TransferError
from harness.core.reasons import Reason
from harness.core.transport import PushItem
from harness.payload import room
from harness.payload.folder import PayloadFolder, read_folder
from harness.payload.ranges import BLOCK_BYTES, PIECE_BYTES
from harness.payload.store import TRUST_S, Stored, ensure_on_phone

BASE = "/data/local/tmp/mnn-farm"


@pytest.fixture
def payload(tmp_path: Path) -> PayloadFolder:
    (tmp_path / "run").write_bytes(b"program")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"w" * 93)
    return read_folder(tmp_path, executable=lambda name: name == "run")


def large(folder: Path, size: int) -> PayloadFolder:
    """One file, no two pieces of it the same."""
    folder.mkdir()
    (folder / "w.bin").write_bytes(random.Random(7).randbytes(size))  # noqa: S311  repeatable bytes, no secret
    return read_folder(folder)


def bring(
    phone: Any,
    payload: PayloadFolder,
    said: list[str] | None = None,
    in_use: Sequence[str] = (),
    *,
    trust: bool = True,
) -> Stored:
    say = (said if said is not None else []).append
    return ensure_on_phone(phone, phone, payload, kind="models", label="model toy", in_use=in_use, say=say, trust=trust)


def test_a_payload_lies_under_its_hash_whole_and_with_its_program_bit(phone: Any, payload: PayloadFolder) -> None:
    stored = bring(phone, payload)
    assert stored == Stored(f"{BASE}/models/{payload.hash[:32]}", 100)
    assert phone.files == {f"{stored.path}/run": b"program", f"{stored.path}/sub/w.bin": b"w" * 93}
    assert phone.modes == {f"{stored.path}/run": 0o755, f"{stored.path}/sub/w.bin": 0o644}


def test_the_second_time_nothing_is_pushed(phone: Any, payload: PayloadFolder) -> None:
    first = bring(phone, payload)
    assert bring(phone, payload) == Stored(first.path, 0)
    assert phone.sessions == 1


def test_a_hash_on_the_phone_counts_for_a_day_unless_it_is_doubted(phone: Any, payload: PayloadFolder) -> None:
    bring(phone, payload)
    bring(phone, payload, trust=False)
    assert phone.trusted == [(f"{payload.hash[:32]}.stamp", trust_s) for trust_s in (TRUST_S, 0)]
    assert TRUST_S == 86400


def test_payloads_of_other_content_lie_side_by_side(phone: Any, payload: PayloadFolder) -> None:
    first = bring(phone, payload)
    (payload.root / "run").write_bytes(b"Program")
    second = bring(phone, read_folder(payload.root))
    assert first.path != second.path
    assert len(phone.below("models")) == 4


@pytest.mark.parametrize("damage", ["flipped", "longer", "missing", "one more"])
def test_a_file_that_rotted_on_the_phone_is_named_in_the_log_and_it_alone_is_pushed_anew(
    phone: Any, payload: PayloadFolder, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    stored = bring(phone, payload)
    good, path = dict(phone.files), f"{stored.path}/sub/w.bin"
    if damage == "missing":
        del phone.files[path]
    elif damage == "one more":
        phone.files[f"{stored.path}/stray"] = b""
    else:
        phone.files[path] = b"w" * 92 + b"W" if damage == "flipped" else b"w" * 94
    assert caplog.text == ""
    assert bring(phone, payload) == Stored(stored.path, 0 if damage == "one more" else 93)
    assert (phone.files, phone.sessions) == (good, 2)
    name = "stray" if damage == "one more" else "sub/w.bin"
    assert f"[toy-1] model toy rotted on the phone and is pushed anew: {name}\n" in caplog.text


def test_of_a_push_that_arrives_damaged_what_is_wrong_is_sent_again(phone: Any, payload: PayloadFolder) -> None:
    phone.spoil = lambda item, data: data.upper() if "w.bin" in str(item.local) and len(phone.sent) == 2 else data
    stored = bring(phone, payload)
    assert (stored.pushed_bytes, phone.sessions) == (193, 2)
    assert phone.below("incoming") == set()
    assert phone.files[f"{stored.path}/sub/w.bin"] == b"w" * 93


def test_a_link_that_flips_bytes_ends_as_a_corrupt_payload_and_leaves_nothing(
    phone: Any, payload: PayloadFolder, caplog: pytest.LogCaptureFixture
) -> None:
    phone.spoil = lambda item, data: data[:-1] + b"!" if "w.bin" in str(item.local) else data
    with pytest.raises(TransferError, match="model toy differs from the local one after two pushes") as caught:
        bring(phone, payload)
    assert (caught.value.reason, phone.sessions, phone.files) == (Reason.PAYLOAD_CORRUPT, 2, {})
    assert "model toy differs on the phone after push 2: sub/w.bin\n" in caplog.text


def test_a_file_that_was_changed_here_meanwhile_is_not_blamed_on_the_phone(phone: Any, payload: PayloadFolder) -> None:
    (payload.root / "sub" / "w.bin").write_bytes(b"v" * 93)
    with pytest.raises(TransferError, match=r"sub/w\.bin of model toy was changed on this computer") as caught:
        bring(phone, payload)
    assert (caught.value.reason, phone.files) == (Reason.PAYLOAD_CORRUPT, {})


def test_a_file_that_is_gone_here_is_a_mistake_of_ours(phone: Any, payload: PayloadFolder) -> None:
    (payload.root / "run").unlink()
    with pytest.raises(ConfigError, match=r"run cannot be read \(No such file or directory\)"):
        bring(phone, payload)


@pytest.mark.parametrize("size", [10 * PIECE_BYTES + 5, 3 * PIECE_BYTES])
def test_a_push_that_broke_off_is_gone_on_with(phone: Any, tmp_path: Path, size: int) -> None:
    payload = large(tmp_path / "large", size)
    half = size // 2 + 77
    content = (payload.root / "w.bin").read_bytes()
    phone.files[f"{BASE}/incoming/{payload.hash[:32]}/payload/w.bin"] = content[:half]
    said: list[str] = []
    stored = bring(phone, payload, said)
    assert stored.pushed_bytes == phone.sent_bytes == size - half
    assert phone.files == {f"{stored.path}/w.bin": content}
    assert said[1].startswith("pushing model toy 50 % of ")
    assert max(item.length for item in phone.sent) <= PIECE_BYTES


def test_what_broke_off_of_something_else_is_begun_anew(phone: Any, payload: PayloadFolder) -> None:
    place = f"{BASE}/incoming/{payload.hash[:32]}/payload"
    phone.files |= {f"{place}/sub/w.bin": b"v" * 50, f"{place}/stray": b"x"}
    stored = bring(phone, payload)
    assert stored.pushed_bytes == 100
    assert phone.files == {f"{stored.path}/run": b"program", f"{stored.path}/sub/w.bin": b"w" * 93}
    assert "drop stray" in phone.orders


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (TransferError("toy-1", "/x", "write failed: No space left on device"), False),
        (TransferError("toy-1", "/x", "write failed: Read-only file system"), False),
        (TransferError("toy-1", "/x", "write failed: I/O error"), False),
        (PhoneLostError("toy-1", "gone"), True),
        (DeadlineError("toy-1", "pushing model toy", 60), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
@pytest.mark.parametrize("rm_works", [True, False])
def test_a_push_that_fails_tells_its_own_reason_and_leaves_what_helps_the_next(
    phone: Any, payload: PayloadFolder, error: Exception, kept: bool, rm_works: bool
) -> None:
    phone.fail["push"] = error
    if not rm_works:
        phone.fail["rm"] = PhoneLostError("toy-1", "gone for good")
    with pytest.raises(type(error)) as caught:
        bring(phone, payload)
    assert caught.value is error
    assert ("payload/run" in "".join(phone.files)) == (kept or not rm_works)
    assert phone.below("models") == set()


def test_where_another_push_goes_on_nothing_of_it_is_removed(phone: Any, payload: PayloadFolder) -> None:
    phone.refuse["lock"] = "another push into /x goes on: wait for its end"
    phone.files[f"{BASE}/incoming/{payload.hash[:32]}/payload/run"] = b"prog"
    with pytest.raises(TransferError, match="another push"):
        bring(phone, payload)
    assert phone.below("incoming") == {f"{payload.hash[:32]}/payload/run"}


def test_what_cannot_be_moved_into_place_is_an_error(phone: Any, payload: PayloadFolder) -> None:
    phone.fail["mv"] = Exception()
    with pytest.raises(ShellError, match="Read-only file system"):
        bring(phone, payload)
    assert phone.below("models") == set()


def test_people_are_told_what_happens(phone: Any, payload: PayloadFolder) -> None:
    said: list[str] = []
    bring(phone, payload, said)
    assert said == [
        "verifying model toy",
        "pushing model toy 0 % of 0.0 MB",
        "pushing model toy 100 % of 0.0 MB",
    ]


def test_what_was_not_used_for_longest_goes_before_the_store_outgrows_its_cap(
    phone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for four payloads. The fifth costs one, but none that is in use."""
    monkeypatch.setattr(room, "CAP_BYTES", 4 * 2**20)
    payloads = []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "w.bin").write_bytes(bytes([number + 1]) * 2**20)
        payloads.append(read_folder(folder))
    paths = [bring(phone, payload).path for payload in payloads[:4]]
    for payload in (payloads[2], payloads[0], payloads[3], payloads[1]):
        assert bring(phone, payload).pushed_bytes == 0
    paths.append(bring(phone, payloads[4], in_use=[payloads[2].hash]).path)
    kept = [index for index, path in enumerate(paths) if phone.below(path.removeprefix(BASE + "/"))]
    assert kept == [1, 2, 3, 4]


def test_what_does_not_fit_is_refused_with_figures_before_a_byte_is_sent(phone: Any, tmp_path: Path) -> None:
    payload = large(tmp_path / "large", 2_000_000)
    phone.free_bytes = 30_000_000
    with pytest.raises(TransferError) as caught:
        bring(phone, payload)
    assert caught.value.reason is Reason.NO_SPACE
    assert "model toy needs 2.0 MB more and 67.1 MB to spare, but only 30.0 MB are free" in caught.value.message
    assert (phone.sent, phone.files) == ([], {})


def test_what_is_there_already_and_what_may_go_counts_as_room(phone: Any, tmp_path: Path) -> None:
    payload = large(tmp_path / "large", 20_000_000)
    content = (payload.root / "w.bin").read_bytes()
    phone.files[f"{BASE}/incoming/{payload.hash[:32]}/payload/w.bin"] = content[:15_000_000]
    phone.files[f"{BASE}/models/{'0' * 32}/w"] = bytes(8 << 20)
    phone.free_bytes = 64 * 2**20  # to spare; 5 MB are missing and 8 MiB may go
    assert bring(phone, payload).pushed_bytes == 5_000_000
    assert phone.below("models/" + "0" * 32) == set()


def test_zeros_are_not_sent(phone: Any, tmp_path: Path) -> None:
    folder = tmp_path / "sparse"
    folder.mkdir()
    content = b"begin" + bytes(3 * BLOCK_BYTES - 5) + bytes(BLOCK_BYTES) + b"end"
    (folder / "w").write_bytes(content)
    stored = bring(phone, read_folder(folder))
    assert stored.pushed_bytes < BLOCK_BYTES + 4
    assert phone.files[f"{stored.path}/w"] == content


def test_a_large_file_becomes_the_target_while_it_arrives_and_a_small_one_afterwards(
    phone: Any, tmp_path: Path
) -> None:
    bring(phone, large(tmp_path / "large", PIECE_BYTES + 1))
    assert f"grow 1 {PIECE_BYTES + 1}" in phone.orders
    phone.orders.clear()
    bring(phone, large(tmp_path / "small", PIECE_BYTES))
    assert f"piece 1 {PIECE_BYTES}" in phone.orders


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("cannot write x (ENOSPC)", Reason.NO_SPACE),
        ("cannot write x (EROFS)", Reason.READ_ONLY),
        ("cannot read a piece of x (EIO)", Reason.PUSH_FAILED),
    ],
)
@pytest.mark.parametrize("order", ["file", "piece", "done", "end"])
def test_what_stops_the_probe_is_the_reason(
    phone: Any, payload: PayloadFolder, sentence: str, reason: Reason, order: str
) -> None:
    phone.refuse[order] = sentence
    with pytest.raises(TransferError) as caught:
        bring(phone, payload)
    assert (caught.value.reason, sentence in caught.value.message) == (reason, True)


def test_pieces_wait_for_those_before_them(phone: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has arrived and is not part of its file yet is lost in a cut: it stays little."""
    payload = large(tmp_path / "large", 9 * PIECE_BYTES)
    phone.files[f"{BASE}/incoming/{payload.hash[:32]}/payload/w.bin"] = (payload.root / "w.bin").read_bytes()[:100]
    most = 0

    def watch(item: PushItem, data: bytes) -> bytes:
        nonlocal most
        most = max(most, len(phone.below("incoming")))
        return data

    phone.spoil = watch
    bring(phone, payload)
    assert most <= 3
