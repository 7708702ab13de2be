"""Which device binaries a run may use."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.payload import chosen as module
from harness.payload.bundle import default_bundle
from harness.payload.chosen import bundles_of
from harness.plan.model import Plan
from harness.plugin.bundles import two_builds_of
from harness.store.head import RunInfo, SecondBuild, Source

TOOLS = """schema = 1
name = "mnn"
runner = "llm_demo"
backends = ["cpu"]
[programs]
llm_demo = "llm_demo"
llm_bench = "llm_bench"
[[variants]]
abi = "arm64-v8a"
files = ["llm_demo", "llm_bench"]
backends = ["cpu"]
"""


def plan(runner: str = "auto") -> Plan:
    return Plan.model_validate({"models": ["toy"], "backends": ["cpu"], "threads": [1], "runner": runner})


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    (tmp_path / "bundle.toml").write_text(TOOLS)
    for name in ("llm_demo", "llm_bench"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


@pytest.fixture
def imported(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "imported_bundles", lambda: [module.read_bundle(tools)])


@pytest.mark.usefixtures("imported")
def test_without_a_word_our_own_comes_first_and_imported_ones_follow() -> None:
    assert [bundle.manifest.name for bundle in bundles_of(None, None, plan())] == ["farm-runner-python", "mnn"]


@pytest.mark.usefixtures("imported")
def test_only_those_that_have_the_wanted_runner_are_left() -> None:
    [bundle] = bundles_of(None, None, plan("llm_bench"))
    assert (bundle.manifest.name, bundle.runner, bundle.program) == ("mnn", "llm_bench", "llm_bench")


def test_a_runner_that_nothing_has_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "imported_bundles", list)
    with pytest.raises(ConfigError, match=r"no device binaries here have llm_demo: import a build of MNN"):
        bundles_of(None, None, plan("llm_demo"))


def test_what_was_named_is_the_only_choice(tools: Path) -> None:
    [bundle] = bundles_of(str(tools), None, plan("llm_bench"))
    assert bundle.runner == "llm_bench"
    with pytest.raises(ConfigError, match="bundle mnn has no farm_runner, only llm_demo, llm_bench"):
        bundles_of(str(tools), None, plan("farm_runner"))


def test_models_of_tensors_are_run_by_a_program_that_can(tools: Path) -> None:
    tensors = Plan.model_validate({"kind": "tensor", "models": ["toy"], "backends": ["cpu"], "threads": [1]})
    [bundle] = bundles_of(str(tools), None, tensors)
    assert bundle.runner == "llm_demo", "it has none, which each of its cells says"
    text = TOOLS.replace("[programs]", '[programs]\nbenchmark = "b"\nmnnv2basic = "v"').replace(
        "files = [", 'files = ["b", "v", '
    )
    (tools / "bundle.toml").write_text(text)
    for name in ("b", "v"):
        (tools / name).write_bytes(b"program")
    [bundle] = bundles_of(str(tools), None, tensors)
    assert (bundle.runner, bundle.program) == ("mnnv2basic", "v")
    assert bundles_of(str(tools), None, plan())[0].runner == "llm_demo"


def test_our_own_bundle_by_path_is_only_itself(tmp_path: Path) -> None:
    copy = shutil.copytree(default_bundle().folder.root, tmp_path / "ours")
    assert [bundle.hash for bundle in bundles_of(str(copy), None, plan())] == [default_bundle().hash]


def copy_of_ours(folder: Path, name: str) -> Path:
    shutil.copytree(default_bundle().folder.root / "synthetic", folder / name)
    manifest = folder / name / "bundle.toml"
    manifest.write_text(manifest.read_text().replace('name = "synthetic"', f'name = "{name}"'))
    return folder / name


def begun_with(folder: Path, *, ab: bool) -> RunInfo:
    """The head of a run of the builds old and new in a folder."""
    old, new = (module.read_bundle(folder / name) for name in ("old", "new"))
    sources = [Source(name=one.manifest.name, hash=one.hash, folder=str(one.folder.root)) for one in (old, new)]
    return RunInfo(
        run_id="r", started="2026-01-01T00:00:00Z", command=(), harness_version="0", versions={}, host={},
        plan_name="night", plan={}, fleet=(), bundle=sources[0],
        ab=SecondBuild(bundle=sources[1], rounds=3) if ab else None,
    )  # fmt: skip


@pytest.fixture
def two(tmp_path: Path) -> Path:
    copy_of_ours(tmp_path, "old")
    copy_of_ours(tmp_path, "new")
    return tmp_path


def test_ab_names_two_builds_that_take_turns_in_two_rounds(two: Path) -> None:
    builds = two_builds_of(f"{two / 'old'}, {two / 'new'}", None, None, plan())
    assert builds is not None
    assert (builds.a.manifest.name, builds.b.manifest.name, builds.rounds) == ("old", "new", 2)
    assert two_builds_of(None, None, None, plan()) is None


def test_the_same_build_twice_shows_what_no_change_looks_like(two: Path) -> None:
    builds = two_builds_of(f"{two / 'old'},{two / 'old'}", "5", None, plan())
    assert builds is not None
    assert (builds.a.hash, builds.rounds) == (builds.b.hash, 5)


def test_a_run_of_two_builds_goes_on_with_its_own(two: Path) -> None:
    builds = two_builds_of(None, None, begun_with(two, ab=True), plan())
    assert builds is not None
    assert (builds.a.manifest.name, builds.b.manifest.name, builds.rounds) == ("old", "new", 3)


@pytest.mark.parametrize(
    ("ab", "rounds", "begun", "sentence"),
    [
        ("old", None, None, r"--ab old: it takes two builds: name two bundles: --ab old,new"),
        ("a,b,c", None, None, r"--ab a,b,c: it takes two builds"),
        ("a,", None, None, r"--ab a,: it takes two builds"),
        (None, "3", None, r"--ab-rounds means nothing without --ab"),
        ("{two}/old,{two}/new", "0", None, r"--ab-rounds 0: it is a whole number from 1 to 50"),
        ("{two}/old,{two}/new", "2.5", None, r"--ab-rounds 2.5: it is a whole number"),
        ("{two}/old,{two}/new", None, False, r"--ab: this run was begun with one build: begin a new run folder"),
        (None, "2", True, r"--ab-rounds 2: this run was begun with 3: leave it out"),
        ("{two}/old,{two}/tools", None, None, r"--ab: old is used by farm_runner, mnn by llm_demo; they measure diff"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(
    two: Path, ab: str | None, rounds: str | None, begun: bool | None, sentence: str
) -> None:
    (two / "tools").mkdir()
    (two / "tools" / "bundle.toml").write_text(TOOLS)
    for name in ("llm_demo", "llm_bench"):
        (two / "tools" / name).write_bytes(name.encode())
    head = None if begun is None else begun_with(two, ab=begun)
    with pytest.raises(ConfigError, match=sentence):
        two_builds_of(ab.format(two=two) if ab else None, rounds, head, plan())
