"""Models from Hugging Face, against a hub on loopback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.errors import ConfigError, FarmError, HostError, ModelIncompleteError
from harness.payload.folder import read_folder
from harness.payload.model_pins import read_pin
from harness.payload.models import read_model
from harness.payload.models_hub import HubSpec, _Meter, fetch_from_hub, parse_spec

SPEC = HubSpec("some-org/Toy-MNN", None, "toy")
WEIGHTS = "llm.mnn.weight"
CHUNK = 50
LOGIN = "set HF_TOKEN or run: hf auth login"
GO_ON = "run the same again: it goes on where it stopped"


class Bench:
    """The hub, the cache that models are fetched to, and what was said of the last fetch."""

    def __init__(self, hub: Any, models: Path) -> None:
        self.hub = hub
        self.models = models
        self.said: list[str] = []

    def fetch(self, spec: HubSpec = SPEC, **how: Any) -> Path:
        self.said.clear()
        return fetch_from_hub(spec, say=self.said.append, **how)

    @property
    def left(self) -> list[str]:
        """What lies in the cache but the lock."""
        return sorted(path.name for path in self.models.iterdir() if not path.name.endswith(".lock"))


@pytest.fixture(scope="session")
def hub_kit(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).with_name("hub_kit.py"))


@pytest.fixture
def bench(hub_kit: ModuleType, kit: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    folder = kit.write_model(tmp_path / "repo")
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    others = {"README.md": b"# Toy\n", ".gitattributes": b"x", "llm.mnn.json": b"{}", "onnx/llm.onnx": b"onnx"}
    hub = hub_kit.Hub({**files, **others})
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", CHUNK)  # what it writes at once
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)  # between its own tries
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    with hub_kit.serving(hub) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        yield Bench(hub, tmp_path / "cache" / "models")


# --- what is asked for ---


@pytest.mark.parametrize(
    ("text", "name", "spec"),
    [
        ("hf:some-org/Toy-MNN", None, HubSpec("some-org/Toy-MNN", None, "toy-mnn")),
        ("hf:some-org/Toy-MNN@v1.0", "toy", HubSpec("some-org/Toy-MNN", "v1.0", "toy")),
        ("hf:a/B_1.5@refs/pr/7", None, HubSpec("a/B_1.5", "refs/pr/7", "b_1.5")),
    ],
)
def test_a_model_of_the_hub_is_named_with_its_organisation(text: str, name: str | None, spec: HubSpec) -> None:
    assert parse_spec(text, name) == spec


@pytest.mark.parametrize("text", ["hf:", "hf:toy", "hf:a/b/c", "hf:a/../b", "hf:a/b@", "hf:a/b c", "hf:/b", "hf:a/é"])
def test_what_names_no_model_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write hf:ORG/NAME or hf:ORG/NAME@REVISION"):
        parse_spec(text)


def test_a_model_cannot_take_the_name_of_our_own() -> None:
    with pytest.raises(ConfigError, match="tiny-llama is the name of a model of mnn-farm's own: give another one"):
        parse_spec("hf:some-org/Tiny-Llama")
    with pytest.raises(ConfigError, match="is no name for a model"):
        parse_spec("hf:some-org/Toy-MNN", "../toy")


# --- fetched ---


def test_a_model_is_fetched_checked_and_pinned_with_its_commit(bench: Bench) -> None:
    folder = bench.fetch()
    assert folder == bench.models / "toy"
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "llm.mnn",
        "llm.mnn.weight",
        "llm_config.json",
        "tokenizer.mtok",
    ]
    pin = read_pin(folder)
    assert pin is not None
    assert (pin.source, pin.engine_version) == (f"hf:some-org/Toy-MNN@{bench.hub.commit}", "3.6.1")
    assert pin.files == read_folder(folder).files
    assert read_model(folder).pinned
    assert bench.left == ["toy", "toy.pin.json"]
    assert bench.said[0] == f"fetching hf:some-org/Toy-MNN at {bench.hub.commit}"
    assert bench.said[-1].startswith("5 files of 0.0 MB are here and as the hub promises")


def test_only_what_the_engine_reads_is_asked_for(bench: Bench, kit: ModuleType) -> None:
    bench.hub.files |= {
        "llm_config.json": kit.model_config(parts={"voice": ["voice.bin", "npu/"]}),
        "voice.bin": b"v",
        "npu/a.bin": b"a",
        "other/b.mnn": b"b",
        "model.safetensors": b"s",
        "embeddings_bf16.bin": b"e",
    }
    bench.fetch()
    asked = [path for path, _ in bench.hub.asked if path]
    assert len(asked) == len(set(asked)) == 8
    assert {"voice.bin", "npu/a.bin", "embeddings_bf16.bin", "llm.mnn"} < set(asked)


def test_a_model_that_is_here_is_not_fetched_again_unless_asked(bench: Bench) -> None:
    folder = bench.fetch()
    bench.hub.asked.clear()
    assert bench.fetch() == folder
    assert bench.hub.asked == []
    assert bench.fetch(HubSpec(SPEC.repo, "main", "toy")) == folder
    assert [path for path, _ in bench.hub.asked] == [""], "which commit main is has to be asked"
    bench.hub.commit = "f" * 40
    with pytest.raises(ConfigError, match="there is a model toy already, from hf:some-org/Toy-MNN@0123456789"):
        bench.fetch(HubSpec(SPEC.repo, "main", "toy"))
    bench.fetch(again=True)
    pin = read_pin(folder)
    assert pin is not None
    assert pin.source.endswith("@" + "f" * 40)
    with pytest.raises(ConfigError, match=r"toy already, from hf:some-org/Toy-MNN@f+: give another name with --name"):
        bench.fetch(HubSpec("other/Toy", None, "toy"))


def test_a_file_that_changed_later_says_how_to_fetch_it_again(bench: Bench) -> None:
    folder = bench.fetch()
    (folder / "config.json").write_text((folder / "config.json").read_text() + " ")
    again = f"run: mnn-farm models fetch hf:some-org/Toy-MNN@{bench.hub.commit} --name toy --again"
    with pytest.raises(ConfigError, match=again):
        read_model(folder)


def test_the_token_of_the_environment_goes_along(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_made_up")
    bench.fetch()
    assert bench.hub.tokens == {"Bearer hf_made_up"}


# --- interrupted ---


def test_a_download_cut_at_half_goes_on_there_the_next_time(bench: Bench) -> None:
    whole = bench.hub.files[WEIGHTS]
    half = len(whole) // 2 // CHUNK * CHUNK
    bench.hub.cut[WEIGHTS] = half
    bench.hub.falls_over = True
    with pytest.raises(HostError, match=f"answered HTTP 503 for hf:some-org/Toy-MNN/{WEIGHTS}: {GO_ON}"):
        bench.fetch()
    assert bench.left == [".toy.part-0123456789abcdef"]
    assert bench.hub.sent[WEIGHTS] == half
    bench.hub.status.clear()
    bench.hub.sent.clear()
    bench.hub.asked.clear()
    bench.fetch()
    assert (WEIGHTS, f"bytes={half}-") in bench.hub.asked
    assert bench.hub.sent == {WEIGHTS: len(whole) - half, "tokenizer.mtok": len(bench.hub.files["tokenizer.mtok"])}
    assert bench.said[1].startswith("going on after 0.0 of 0.0 MB")
    assert bench.left == ["toy", "toy.pin.json"]


def test_a_connection_that_breaks_once_is_taken_up_again_at_once(bench: Bench) -> None:
    whole = bench.hub.files[WEIGHTS]
    bench.hub.cut[WEIGHTS] = 100
    bench.fetch()
    assert bench.hub.sent[WEIGHTS] == len(whole)
    assert [asked for path, asked in bench.hub.asked if path == WEIGHTS] == ["", "bytes=100-"]


def test_a_server_that_knows_no_ranges_sends_all_again(bench: Bench) -> None:
    bench.hub.ignores_ranges = True
    bench.hub.cut[WEIGHTS] = 100
    folder = bench.fetch()
    assert (folder / WEIGHTS).read_bytes() == bench.hub.files[WEIGHTS]


def test_what_is_left_of_another_commit_or_was_too_long_is_thrown_away(bench: Bench) -> None:
    other, part = bench.models / ".toy.part-ffff", bench.models / ".toy.part-0123456789abcdef"
    for folder in (other, part):
        folder.mkdir(parents=True)
        (folder / WEIGHTS).write_bytes(b"x" * 10_000)
        (folder / "stray.bin").write_bytes(b"x")
    folder = bench.fetch()
    assert (folder / WEIGHTS).read_bytes() == bench.hub.files[WEIGHTS]
    assert not (folder / "stray.bin").exists()
    assert bench.left == ["toy", "toy.pin.json"]


# --- refused ---


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ((404, "RepoNotFound"), f"hf:some-org/Toy-MNN is not on the hub, or it is private: check the name; .*{LOGIN}"),
        ((401, ""), "hf:some-org/Toy-MNN is not on the hub, or it is private"),
        ((401, "GatedRepo"), f"hf:some-org/Toy-MNN is gated: .*: ask for access on its page, then {LOGIN}"),
        ((403, "GatedRepo"), "hf:some-org/Toy-MNN is gated"),
        ((403, ""), rf"hf:some-org/Toy-MNN may not be read with this token \(HTTP 403\): {LOGIN}"),
        ((500, ""), f"the hub answered HTTP 500 for hf:some-org/Toy-MNN: {GO_ON}"),
    ],
)
def test_what_the_hub_refuses_is_one_sentence_with_what_to_do(bench: Bench, status: tuple[int, str], says: str) -> None:
    bench.hub.status[""] = status
    with pytest.raises(FarmError, match=says) as caught:
        bench.fetch()
    assert "\n" not in str(caught.value)
    assert bench.left == []


def test_a_file_of_a_gated_model_is_refused_the_same_way(bench: Bench) -> None:
    bench.hub.status["llm.mnn"] = (403, "GatedRepo")
    with pytest.raises(ConfigError, match=r"hf:some-org/Toy-MNN/llm\.mnn is gated"):
        bench.fetch()
    bench.hub.status["llm.mnn"] = (404, "EntryNotFound")
    with pytest.raises(HostError, match=r"Toy-MNN/llm\.mnn is listed by the hub and is not there"):
        bench.fetch()


def test_a_revision_that_is_not_there(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="has no revision v9: name a branch, tag or commit"):
        bench.fetch(HubSpec(SPEC.repo, "v9", "toy"))


def test_no_network_and_no_hub_are_told_apart(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.hub.listing = b"<html>Please log in to the guest network"
    with pytest.raises(HostError, match=r"the answer for hf:some-org/Toy-MNN is not the hub's .*: check HF_ENDPOINT"):
        bench.fetch()
    bench.hub.listing = b'{"id": "x", "siblings": []}'
    with pytest.raises(HostError, match=r"is not the hub's \(it names no commit\)"):
        bench.fetch()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(HostError, match=r"the hub cannot be reached .*refused.*: check network, proxy and HF_ENDPOINT"):
        bench.fetch()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HostError, match="cannot be fetched: HF_HUB_OFFLINE is set: unset it"):
        bench.fetch()


def test_a_hub_that_never_answers_is_not_waited_for_for_ever(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.payload.hub._ASK_S", 0.05)
    bench.hub.answers.clear()
    with pytest.raises(HostError, match=r"the hub cannot be reached for hf:some-org/Toy-MNN \(.*timed out"):
        bench.fetch()


@pytest.mark.parametrize("path", [WEIGHTS, "llm.mnn"], ids=["listed with a SHA-256", "listed with Git's hash"])
def test_content_that_is_not_what_the_hub_promises_is_removed_and_fetched_anew(bench: Bench, path: str) -> None:
    right = bench.hub.files[path]
    bench.hub.listed[path] = right
    bench.hub.files[path] = right[:-1] + b"?"
    with pytest.raises(HostError, match=f"{path} came with other content than the hub promises: run the same"):
        bench.fetch()
    bench.hub.files[path] = right
    bench.hub.sent.clear()
    bench.fetch()
    assert bench.hub.sent[path] == len(right)


def test_a_file_that_is_shorter_than_listed_did_not_come_whole(bench: Bench) -> None:
    bench.hub.listed[WEIGHTS] = bench.hub.files[WEIGHTS] + b"more"
    with pytest.raises(HostError, match=f"{WEIGHTS} did not come whole .*: {GO_ON}"):
        bench.fetch()


def test_a_pointer_instead_of_the_file_is_refused_and_leaves_nothing(bench: Bench) -> None:
    bench.hub.large.clear()
    bench.hub.files[WEIGHTS] = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    with pytest.raises(ModelIncompleteError) as caught:
        bench.fetch()
    assert str(caught.value) == (
        "hf:some-org/Toy-MNN is no whole MNN model: llm.mnn.weight (llm_weight) is a Git LFS pointer, not the file: "
        "take another model"
    )
    assert bench.left == []


@pytest.mark.parametrize(("without", "says"), [("config.json", "no config.json"), ("llm.mnn", r"no \*.mnn")])
def test_a_repository_that_is_no_mnn_model_is_refused_before_anything_is_fetched(
    bench: Bench, without: str, says: str
) -> None:
    del bench.hub.files[without]
    with pytest.raises(ConfigError, match=f"hf:some-org/Toy-MNN is no MNN model: it has {says}: name a repository"):
        bench.fetch()
    assert bench.hub.sent == {}


@pytest.mark.parametrize("path", ["../evil.mnn", "/etc/evil.mnn", "a/../../evil.mnn"])
def test_a_file_that_leads_out_of_the_folder_is_refused(bench: Bench, path: str) -> None:
    bench.hub.files[path] = b"evil"
    with pytest.raises(ConfigError, match="that leads out of its folder"):
        bench.fetch()
    assert bench.hub.sent == {}


def test_a_disk_that_is_too_small_is_told_before_the_large_files(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(bench.models.parent.parent)._replace(free=1000)
    monkeypatch.setattr("harness.payload.models_hub.shutil.disk_usage", lambda _: usage)
    with pytest.raises(HostError, match=r"MB are to be fetched and .* has 0.0 MB free: make room, or move the cache"):
        bench.fetch()
    assert WEIGHTS not in bench.hub.sent


def test_a_disk_that_fills_up_meanwhile_is_one_sentence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("huggingface_hub.file_download.http_get", fail)
    with pytest.raises(HostError, match=r"toy cannot be written to .* \(No space left on device\)"):
        bench.fetch()


# --- progress ---


def test_progress_is_told_now_and_then_with_rate_and_what_is_left() -> None:
    said: list[str] = []
    now = [0.0]
    meter = _Meter(400_000_000, said.append, lambda: now[0])
    meter.done, meter.file = 100_000_000, "llm.mnn.weight"
    for second in (0.5, 1.9, 2.5, 4.0, 5.0):
        now[0] = second
        meter.add(20_000_000)
    assert said == [
        "llm.mnn.weight: 160.0 of 400.0 MB, 24.0 MB/s, 10 s left",
        "llm.mnn.weight: 200.0 of 400.0 MB, 20.0 MB/s, 10 s left",
    ]


def test_json_that_names_nothing_is_no_trouble(bench: Bench) -> None:
    bench.hub.files["llm_config.json"] = b"{"
    with pytest.raises(ModelIncompleteError, match=r"is no whole MNN model: llm_config\.json cannot be read as JSON"):
        bench.fetch()
    assert json.loads(bench.hub.files["config.json"])["llm_model"] == "llm.mnn"
