"""The store, on a phone that is a dictionary: path to bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from harness.core.deadline import Deadline
from harness.core.errors import DeadlineError, PhoneLostError, ShellError, TransferError
from harness.core.reasons import Reason
from harness.core.transport import PushItem, ShellResult
from harness.payload.folder import PayloadFolder, read_folder
from harness.payload.store import Stored, ensure_on_phone

BASE = "/data/local/tmp/mnn-farm"


class DictPhone:
    """Transport and probe at once. `spoil` may change what a push leaves; `fail` makes a step raise."""

    name, base_dir, serial, server = "toy-1", BASE, "S", None

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        self.pushes = 0
        self.spoil: Callable[[DictPhone], None] = lambda _: None
        self.fail: dict[str, Exception] = {}
        self.commands: list[str] = []
        self.time = 1000
        self.used: dict[str, int] = {}
        self.free_kib = 10**9

    def listing(self) -> str:
        """Each payload with the time of its use and its size in KiB."""
        folders = {path.removeprefix(BASE + "/").rpartition("/")[0] for path in self.files}
        whole = sorted({"/".join(folder.split("/")[:2]) for folder in folders})
        kib = {folder: sum(len(self.files[path]) for path in self.below(folder)) // 1024 for folder in whole}
        return "".join(f"{self.used.get(folder, 0)} {kib[folder]}\t{folder}\n" for folder in whole)

    def push(self, items: Sequence[PushItem], *, deadline: Deadline, progress: Callable[[int], None]) -> None:
        assert deadline.phone == "toy-1"
        self.pushes += 1
        for number, item in enumerate(items):
            if number == 1 and "push" in self.fail:
                raise self.fail["push"]
            data = item.local.read_bytes()
            self.files[item.remote] = data
            self.modes[item.remote] = item.mode
            progress(len(data))
        self.spoil(self)

    def shell(self, argv: Sequence[str], *, deadline: Deadline, stdin: bytes = b"") -> ShellResult:
        self.commands.append(argv[0])
        if argv[0] in self.fail:
            raise self.fail[argv[0]]
        if argv[0] == "rm":
            for folder in argv[2:]:
                self.remove(folder)
            return ShellResult(0, b"", b"")
        if argv[0] == "touch":
            self.used[argv[1].removeprefix(BASE + "/")] = self.time = self.time + 1
            return ShellResult(0, b"", b"")
        if argv[0] == "df":
            return ShellResult(0, f"/dev/x {10**9} 9 {self.free_kib} 9% {argv[1]}\n".encode(), b"")
        assert argv[:2] == ["sh", "-c"]
        if len(argv) == 5:
            return ShellResult(0, self.listing().encode(), b"")
        if "mv" in self.fail:
            return ShellResult(1, b"", b"mv: Read-only file system")
        old, new = argv[4:]
        self.remove(new)
        for path in [path for path in self.files if path.startswith(old + "/")]:
            self.files[new + path.removeprefix(old)] = self.files.pop(path)
        return ShellResult(0, b"", b"")

    def remove(self, folder: str) -> None:
        assert folder.startswith(BASE + "/")
        self.files = {path: data for path, data in self.files.items() if not path.startswith(folder + "/")}

    def hash_tree(self, folder: str, seconds: float) -> dict[str, tuple[int, str]]:
        assert seconds > 0
        below = {p.removeprefix(folder + "/"): d for p, d in self.files.items() if p.startswith(folder + "/")}
        return {path: (len(data), hashlib.sha256(data).hexdigest()) for path, data in below.items()}

    def below(self, folder: str) -> set[str]:
        return {path for path in self.files if path.startswith(f"{BASE}/{folder}/")}


@pytest.fixture
def phone() -> DictPhone:
    return DictPhone()


@pytest.fixture
def payload(tmp_path: Path) -> PayloadFolder:
    (tmp_path / "run").write_bytes(b"program")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"w" * 93)
    return read_folder(tmp_path, executable=lambda name: name == "run")


def bring(
    phone: DictPhone, payload: PayloadFolder, said: list[str] | None = None, in_use: Sequence[str] = ()
) -> Stored:
    where: Any = cast("Any", phone)
    say = (said if said is not None else []).append
    return ensure_on_phone(where, where, payload, kind="models", label="model toy", in_use=in_use, say=say)


def test_a_payload_lies_under_its_hash_whole_and_with_its_program_bit(phone: DictPhone, payload: PayloadFolder) -> None:
    stored = bring(phone, payload)
    assert stored == Stored(f"{BASE}/models/{payload.hash[:32]}", 100)
    assert {path.removeprefix(stored.path): data for path, data in phone.files.items()} == {
        "/run": b"program",
        "/sub/w.bin": b"w" * 93,
    }
    assert sorted(phone.modes.values()) == [0o644, 0o755]


def test_the_second_time_nothing_is_pushed(phone: DictPhone, payload: PayloadFolder) -> None:
    first = bring(phone, payload)
    assert bring(phone, payload) == Stored(first.path, 0)
    assert phone.pushes == 1


def test_payloads_of_other_content_lie_side_by_side(phone: DictPhone, payload: PayloadFolder) -> None:
    first = bring(phone, payload)
    (payload.root / "run").write_bytes(b"Program")
    second = bring(phone, read_folder(payload.root))
    assert first.path != second.path
    assert len(phone.below("models")) == 4


@pytest.mark.parametrize("damage", ["flipped", "longer", "missing", "one more"])
def test_a_file_that_rotted_on_the_phone_is_named_in_the_log_and_pushed_anew(
    phone: DictPhone, payload: PayloadFolder, damage: str, caplog: pytest.LogCaptureFixture
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
    assert bring(phone, payload) == stored
    assert (phone.files, phone.pushes) == (good, 2)
    name = "stray" if damage == "one more" else "sub/w.bin"
    assert f"[toy-1] model toy rotted on the phone and is pushed anew: {name}\n" in caplog.text


def test_a_push_that_arrives_damaged_is_done_again(phone: DictPhone, payload: PayloadFolder) -> None:
    def once(spoiled: DictPhone) -> None:
        if spoiled.pushes == 1:
            path = next(path for path in spoiled.files if path.endswith("w.bin"))
            spoiled.files[path] = b"w" * 50

    phone.spoil = once
    stored = bring(phone, payload)
    assert (stored.pushed_bytes, phone.pushes) == (200, 2)
    assert phone.below("incoming") == set()
    assert phone.files[f"{stored.path}/sub/w.bin"] == b"w" * 93


def test_a_link_that_flips_bytes_ends_as_a_corrupt_payload_and_leaves_nothing(
    phone: DictPhone, payload: PayloadFolder, caplog: pytest.LogCaptureFixture
) -> None:
    def always(spoiled: DictPhone) -> None:
        spoiled.files.update({path: data[:-1] + b"!" for path, data in spoiled.files.items() if "w.bin" in path})

    phone.spoil = always
    with pytest.raises(TransferError, match="model toy differs from the local one after two pushes") as caught:
        bring(phone, payload)
    assert (caught.value.reason, phone.pushes, phone.files) == (Reason.PAYLOAD_CORRUPT, 2, {})
    assert "model toy differs on the phone after push 2: sub/w.bin\n" in caplog.text


def test_a_payload_that_never_arrives_whole_is_refused_and_leaves_nothing(
    phone: DictPhone, payload: PayloadFolder
) -> None:
    def always(spoiled: DictPhone) -> None:
        spoiled.files.update({path: data[:-1] for path, data in spoiled.files.items()})

    phone.spoil = always
    with pytest.raises(TransferError, match="model toy differs from the local one after two pushes") as caught:
        bring(phone, payload)
    assert (caught.value.reason, phone.pushes) == (Reason.PAYLOAD_CORRUPT, 2)
    assert phone.files == {}


@pytest.mark.parametrize(
    "error",
    [
        TransferError("toy-1", "/x", "write failed: No space left on device"),
        PhoneLostError("toy-1", "gone"),
        DeadlineError("toy-1", "pushing model toy", 60),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("rm_works", [True, False])
def test_a_push_that_fails_tells_its_own_reason_and_leaves_nothing(
    phone: DictPhone, payload: PayloadFolder, error: Exception, rm_works: bool
) -> None:
    phone.fail["push"] = error
    if not rm_works:
        phone.fail["rm"] = PhoneLostError("toy-1", "gone for good")
    with pytest.raises(type(error)) as caught:
        bring(phone, payload)
    assert caught.value is error
    assert phone.pushes == 1
    assert (phone.files == {}) == rm_works
    assert phone.commands == ["sh", "df", "rm"]


def test_what_cannot_be_moved_into_place_is_an_error_and_leaves_nothing(
    phone: DictPhone, payload: PayloadFolder
) -> None:
    phone.fail["mv"] = Exception()
    with pytest.raises(ShellError, match="Read-only file system"):
        bring(phone, payload)
    assert phone.files == {}


def test_people_are_told_what_happens(phone: DictPhone, payload: PayloadFolder) -> None:
    said: list[str] = []
    bring(phone, payload, said)
    assert (said[0], said[-1]) == ("verifying model toy", "verifying model toy")
    assert said[1:-1] == ["pushing model toy 100 % of 0.0 MB"]


def test_what_was_not_used_for_longest_goes_before_the_store_outgrows_its_cap(phone: DictPhone, tmp_path: Path) -> None:
    """Of 8 MiB in all half are the store's: four payloads of one. The fifth costs one, but none that is in use."""
    payloads = []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "w.bin").write_bytes(bytes([number]) * 2**20)
        payloads.append(read_folder(folder))
    paths = [bring(phone, payload).path for payload in payloads[:4]]
    for payload in (payloads[2], payloads[0], payloads[3], payloads[1]):
        assert bring(phone, payload).pushed_bytes == 0
    phone.free_kib = 4 * 1024
    paths.append(bring(phone, payloads[4], in_use=[payloads[2].hash]).path)
    kept = [index for index, path in enumerate(paths) if phone.below(path.removeprefix(BASE + "/"))]
    assert kept == [1, 2, 3, 4]
