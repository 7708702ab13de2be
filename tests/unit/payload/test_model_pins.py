"""Pinned models: imported, compared at every use, accepted again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness.core.errors import ConfigError, HostError, ModelIncompleteError
from harness.payload.folder import copy_folder, read_folder
from harness.payload.model_pins import pin_file, read_pin
from harness.payload.models import find_model, here_models, read_model, verify_model
from harness.payload.models_import import import_model, pin_in_place

Import = Callable[..., Path]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MNN_FARM_STATE", str(tmp_path / "state"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def toy(kit: ModuleType, tmp_path: Path) -> Path:
    return Path(kit.write_model(tmp_path / "toy"))


def take(source: Path, name: str = "mine", *, replace: bool = False) -> Path:
    return import_model(source, name, replace=replace, say=lambda _: None)


def flip(file: Path, at: int = 400) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(bytes(data))


def test_an_imported_model_is_found_by_its_name_whole_and_pinned(toy: Path, cache: Path) -> None:
    assert take(toy) == cache / "mine" == find_model("mine")
    assert here_models() == [
        "mine",
        "smollm2-135m",
        "smollm2-135m-w4",
        "tiny-cnn",
        "tiny-cnn-fp16",
        "tiny-cnn-int8",
        "tiny-llama",
    ]
    found, source = read_model(find_model("mine")), read_model(toy)
    assert (found.folder.hash, found.pinned) == (source.folder.hash, True)
    assert source.pinned is False
    pin = read_pin(cache / "mine")
    assert pin is not None
    assert (pin.files, pin.source, pin.engine_version) == (found.folder.files, str(toy), "3.6.1")
    assert sorted(path.name for path in cache.iterdir()) == [".mine.lock", "mine", "mine.pin.json"]


def test_a_flipped_byte_in_the_weights_is_refused_with_what_was_pinned_and_how_to_go_on(toy: Path, cache: Path) -> None:
    take(toy)
    weights = cache / "mine" / "llm.mnn.weight"
    pin = read_pin(cache / "mine")
    assert pin is not None
    was = next(file for file in pin.files if file.path == "llm.mnn.weight").sha256[:16]
    flip(weights)
    is_now = next(f for f in read_folder(cache / "mine").files if f.path == "llm.mnn.weight").sha256[:16]
    with pytest.raises(ConfigError) as caught:
        read_model(cache / "mine")
    assert caught.value.reason.code == "payload_corrupt"
    assert str(caught.value) == (
        f"{weights} is not what was pinned: on {pin.pinned} it had 517 bytes with SHA-256 {was}… "
        f"and has 517 bytes with SHA-256 {is_now}…: "
        f"run: mnn-farm models import {toy} --name mine --replace; "
        f"to accept it as it is: mnn-farm models import --in-place {cache / 'mine'}"
    )
    take(toy, replace=True)
    assert read_model(cache / "mine").pinned


def test_a_tokenizer_that_was_shuffled_is_found_by_its_pin_alone(kit: ModuleType, tmp_path: Path) -> None:
    shuffled = kit.mtok().replace(b"t1\x01", b"t1\x02").replace(b"t2\x02", b"t2\x01")
    assert len(shuffled) == len(kit.mtok())
    folder = kit.write_model(tmp_path / "shuffled", tokenizer__mtok=shuffled)
    assert verify_model(folder).problems == ()
    pinned = kit.write_model(tmp_path / "pinned")
    pin_in_place(pinned)
    (pinned / "tokenizer.mtok").write_bytes(shuffled)
    [problem] = verify_model(pinned).problems
    assert (problem.check, problem.reason.code, problem.warning) == ("pin_differs", "payload_corrupt", False)
    assert problem.detail.startswith(f"{pinned}/tokenizer.mtok is not what was pinned")


def test_files_that_went_or_came_are_told_too_and_all_at_once(toy: Path) -> None:
    (toy / "notes").write_text("x")
    pin_in_place(toy)
    (toy / "stray.bin").write_bytes(b"x")
    (toy / "config.json").write_text((toy / "config.json").read_text().replace("4", "2"))
    (toy / "notes").unlink()
    report = verify_model(toy)
    assert [(p.check, Path(p.detail.split(" ")[0]).name) for p in report.problems] == [
        ("pin_differs", "config.json"),
        ("pin_differs", "notes"),
        ("pin_differs", "stray.bin"),
    ]
    assert "it had 1 bytes" in report.problems[1].detail
    assert report.problems[1].detail.endswith("and is missing")
    assert report.problems[2].detail.endswith("it was not there")
    assert report.problems[2].fix.startswith("restore the file; to accept it as it is: ")


def test_a_folder_is_pinned_where_it_lies_and_not_changed_by_it(toy: Path, tmp_path: Path) -> None:
    before = read_folder(toy).hash
    place = pin_in_place(toy)
    assert place.parent == tmp_path / "state" / "pins"
    assert json.loads(place.read_text())["source"] == str(toy)
    found = read_model(toy)
    assert (found.folder.hash, found.pinned) == (before, True)


def test_a_pinned_folder_is_known_however_it_is_called(toy: Path, tmp_path: Path) -> None:
    pin_in_place(toy)
    (tmp_path / "link").symlink_to(toy)
    assert pin_file(tmp_path / "link") == pin_file(toy)
    assert read_model(tmp_path / "link").pinned
    toy.rename(tmp_path / "moved")
    assert read_model(tmp_path / "moved").pinned is False


def test_what_changed_can_be_accepted(toy: Path, cache: Path) -> None:
    take(toy)
    flip(cache / "mine" / "llm.mnn.weight")
    assert pin_in_place(cache / "mine") == cache / "mine.pin.json"
    assert read_model(cache / "mine").pinned


def test_a_broken_model_is_neither_imported_nor_pinned(toy: Path, cache: Path) -> None:
    (toy / "llm.mnn.weight").write_bytes(b"x")
    with pytest.raises(ModelIncompleteError, match="cut off"):
        take(toy)
    with pytest.raises(ModelIncompleteError, match="cut off"):
        pin_in_place(toy)
    assert not cache.exists() or list(cache.iterdir()) == []
    assert read_pin(toy) is None


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("smollm2-135m", "is the name of a model of mnn-farm's own: give another one with --name"),
        ("tiny-llama", "is the name of a model of mnn-farm's own"),
        ("../x", "'../x' is no name for a model"),
        (".x", "is no name for a model"),
        ("", "is no name for a model"),
        ("x.pin.json", "is no name for a model"),
    ],
)
def test_a_name_that_cannot_be_given_is_refused(toy: Path, name: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        take(toy, name)
    assert says in str(caught.value)


def test_a_name_that_is_taken_is_kept_unless_it_is_to_go(kit: ModuleType, toy: Path, tmp_path: Path) -> None:
    take(toy)
    other = kit.write_model(tmp_path / "other", notes__txt=b"other")
    with pytest.raises(ConfigError, match="there is a model mine already: give another name with --name, or --replace"):
        take(other)
    assert not (find_model("mine") / "notes.txt").exists()
    take(other, replace=True)
    assert (find_model("mine") / "notes.txt").read_bytes() == b"other"
    assert read_model(find_model("mine")).pinned


def test_a_model_cannot_be_copied_onto_itself(toy: Path) -> None:
    place = take(toy)
    with pytest.raises(ConfigError, match="lies where it would be copied to: pin it with --in-place"):
        take(place, replace=True)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 2}', '{"schema": 1, "files": [{"path": "x"}]}'])
def test_a_pin_that_cannot_be_read_is_no_missing_pin(toy: Path, content: str) -> None:
    pin_in_place(toy).write_text(content)
    with pytest.raises(ConfigError, match=r"the pin of .*toy cannot be read from") as caught:
        read_model(toy)
    assert caught.value.reason.code == "payload_corrupt"
    assert [problem.check for problem in verify_model(toy).problems] == ["pin_unreadable"]
    pin_in_place(toy)
    assert read_model(toy).pinned


def test_where_no_state_can_be_kept_nothing_is_pinned(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("MNN_FARM_STATE", str(tmp_path / "file"))
    assert read_model(toy).pinned is False
    with pytest.raises(HostError, match=r"the pin of .*toy cannot be written"):
        pin_in_place(toy)


def test_holes_stay_holes_in_the_copy(tmp_path: Path) -> None:
    source = tmp_path / "sparse"
    source.mkdir()
    size = 64 << 20
    with (source / "w.bin").open("wb") as file:
        file.write(b"begin")
        file.seek(size - 3)
        file.write(b"end")
    (source / "sub").mkdir()
    (source / "sub" / "zeros").write_bytes(bytes(5))
    folder = read_folder(source)
    copy_folder(folder, tmp_path / "copy")
    assert read_folder(tmp_path / "copy").hash == folder.hash
    copied = (tmp_path / "copy" / "w.bin").stat()
    assert copied.st_size == size
    assert copied.st_blocks * 512 < 8 << 20


def test_a_copy_that_differs_is_not_kept(toy: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad_copy(folder: object, target: Path) -> None:
        target.mkdir()
        (target / "config.json").write_text("{}")

    monkeypatch.setattr("harness.payload.models_import.copy_folder", bad_copy)
    with pytest.raises(HostError, match=r"the copy of .* differs from it: try again"):
        take(toy)
    assert [path.name for path in cache.iterdir()] == [".mine.lock"]
