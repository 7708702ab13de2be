"""Which device binaries a run may use."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.payload.bundle import default_bundle
from harness.plan.model import Plan
from harness.plugin import bundles as module
from harness.plugin.bundles import bundles_of

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


def test_our_own_bundle_by_path_is_only_itself(tmp_path: Path) -> None:
    copy = shutil.copytree(default_bundle().folder.root, tmp_path / "ours")
    assert [bundle.hash for bundle in bundles_of(str(copy), None, plan())] == [default_bundle().hash]
