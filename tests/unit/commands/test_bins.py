"""``mnn-farm bins`` as people and scripts meet it: what is printed, where, and with which exit status."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app
from harness.core.errors import BundleError, ConfigError

Farm = Callable[..., Result]


@pytest.fixture(scope="session")
def elf_kit(load_module: Callable[[Path], ModuleType]) -> ModuleType:
    return load_module(Path(__file__).parents[1] / "payload" / "elf_kit.py")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bundles"


@pytest.fixture
def farm() -> Farm:
    return lambda *words: CliRunner().invoke(app, ["bins", *map(str, words)])


@pytest.fixture
def mnn(elf_kit: ModuleType, tmp_path: Path) -> Path:
    folder: Path = elf_kit.write(tmp_path / "mnn-4.5.6", elf_kit.build())
    return folder


@pytest.mark.parametrize("verb", ["inspect", "import", "list", "build"])
def test_every_verb_has_help_with_an_example(verb: str, farm: Farm) -> None:
    done = farm(verb, "--help")
    assert (done.exit_code, f"Example: mnn-farm bins {verb}" in done.stdout) == (0, True)


def test_a_good_build_is_described_and_the_status_is_0(mnn: Path, farm: Farm) -> None:
    done = farm("inspect", mnn)
    assert done.exit_code == 0
    size = sum(path.stat().st_size for path in mnn.iterdir())
    assert done.stdout.splitlines() == [
        "engine: MNN",
        "engine_version: 4.5.6",
        "backends: cpu",
        "runners: llm_bench, llm_demo",
        f"arm64-v8a: libMNN.so, llm_bench, llm_demo; {size / 1e6:.1f} MB; backends cpu; API 24 and up; "
        "memory pages up to 16384 bytes",
    ]


def test_a_bad_build_is_one_json_document_and_status_1(elf_kit: ModuleType, farm: Farm, tmp_path: Path) -> None:
    bad = elf_kit.write(tmp_path / "bad", {**elf_kit.build(), "libMNN.so": b"a text"})
    done = farm("inspect", bad, "--json")
    assert (done.exit_code, done.stderr) == (1, "")
    answer = json.loads(done.stdout)
    assert answer["ok"] is False
    assert answer["problems"][0] == {
        "code": "not_an_elf",
        "reason": "bundle_mismatch",
        "severity": "error",
        "detail": f"{bad}/libMNN.so is a text file, not a program or shared library",
        "fix": "put the real file there",
    }
    assert [problem["code"] for problem in answer["problems"][1:]] == ["library_missing"]
    assert answer["facts"]["runners"] == ["llm_bench", "llm_demo"]


def test_pages_of_16_kb_turn_a_warning_into_an_error(elf_kit: ModuleType, farm: Farm, tmp_path: Path) -> None:
    small = elf_kit.write(tmp_path / "small", elf_kit.build(align=4096))
    as_it_is = farm("inspect", small)
    assert (as_it_is.exit_code, as_it_is.stdout.startswith("warning: page_alignment: ")) == (0, True)
    asked = farm("inspect", small, "--page-size", "16384")
    assert (asked.exit_code, asked.stdout.startswith("error: page_alignment: ")) == (1, True)
    assert farm("inspect", small, "--page-size", "16").exit_code == 2


@pytest.mark.parametrize(
    ("entries", "code", "fix"),
    [
        ({"../evil.so": b"x"}, "archive_unsafe", "pack it again, or unpack it yourself and name the folder"),
        ({"libMNN.so": b"text"}, "not_an_elf", "put the real file there"),
        ({"readme": b"x"}, "bundle_empty", "name the folder that MNN was built in, or an unpacked release of it"),
    ],
)
def test_archives_are_inspected_too(entries: dict[str, bytes], code: str, fix: str, farm: Farm, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "mnn.zip", "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    done = farm("inspect", tmp_path / "mnn.zip", "--json")
    problem = json.loads(done.stdout)["problems"][0]
    assert (done.exit_code, problem["code"], problem["fix"]) == (1, code, fix)


def test_a_build_is_imported_listed_and_inspected_by_its_name(mnn: Path, farm: Farm, cache: Path) -> None:
    done = farm("import", mnn)
    assert (done.exit_code, done.stdout) == (0, f"{cache}/mnn-4.5.6\n")
    assert done.stderr.startswith(f"inspecting {mnn}\ncopying ")
    assert json.loads(farm("list", "--json").stdout) == {
        "bundles": [
            {
                "name": "mnn-4.5.6",
                "path": f"{cache}/mnn-4.5.6",
                "engine": "MNN",
                "engine_version": "4.5.6",
                "runners": ["llm_bench", "llm_demo"],
                "runner": "llm_bench",
                "abis": ["arm64-v8a"],
                "backends": ["cpu"],
                "source": str(mnn),
            }
        ]
    }
    assert farm("list").stdout == f"mnn-4.5.6  MNN 4.5.6  llm_bench, llm_demo  arm64-v8a  cpu  {cache}/mnn-4.5.6\n"
    assert farm("inspect", "mnn-4.5.6").exit_code == 0
    (cache / "mnn-4.5.6" / "arm64-v8a" / "llm_demo").write_bytes(b"changed")
    changed = farm("inspect", "mnn-4.5.6", "--json")
    problems = {problem["code"]: problem["reason"] for problem in json.loads(changed.stdout)["problems"]}
    assert (changed.exit_code, problems["pin_differs"]) == (1, "payload_corrupt")


def test_a_broken_manifest_is_listed_with_what_is_wrong(mnn: Path, farm: Farm, cache: Path) -> None:
    farm("import", mnn, "--name", "mine")
    (cache / "mine" / "bundle.toml").write_text("name = ")
    [row] = json.loads(farm("list", "--json").stdout)["bundles"]
    assert (row["name"], row["problem"].startswith(f"{cache}/mine/bundle.toml is not TOML")) == ("mine", True)
    assert farm("list").stdout.startswith(f"mine  {cache}/mine  {cache}/mine/bundle.toml is not TOML")


def test_without_a_bundle_the_list_says_how_to_get_one(farm: Farm) -> None:
    done = farm("list")
    assert (done.exit_code, done.stdout, done.stderr) == (
        0,
        "",
        "no bundle was imported yet: mnn-farm bins import PATH\n",
    )
    assert json.loads(farm("list", "--json").stdout) == {"bundles": []}


def test_options_of_an_import_reach_the_manifest(mnn: Path, farm: Farm, cache: Path) -> None:
    done = farm("import", mnn, "--name", "mine", "--cpu-feature", "i8mm", "--cpu-feature", "asimddp")
    assert done.stdout == f"{cache}/mine\n"
    assert 'cpu_features = ["asimddp", "i8mm"]' in (cache / "mine" / "bundle.toml").read_text()


def test_what_is_refused_is_one_error_with_its_check(
    elf_kit: ModuleType, mnn: Path, farm: Farm, tmp_path: Path
) -> None:
    refused = farm("import", elf_kit.write(tmp_path / "bad", {"libMNN.so": b"text"}))
    assert isinstance(refused.exception, BundleError)
    assert (refused.exception.check, refused.stdout) == ("not_an_elf", "")
    assert farm("import", mnn).exit_code == 0
    taken = farm("import", mnn)
    assert isinstance(taken.exception, ConfigError)
    assert str(taken.exception) == (
        "there is a bundle mnn-4.5.6 already: give another name with --name, or --replace it"
    )
    assert farm("import", mnn, "--replace").exit_code == 0


@pytest.mark.parametrize("archive", [False, True])
def test_a_runner_that_was_built_is_imported_and_says_what_it_was_built_from(
    archive: bool, elf_kit: ModuleType, farm: Farm, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_runner(
        sdk: Path, ndk: Path, out: Path, say: Callable[[str], None], *, headers: Path | None
    ) -> list[Path]:
        assert (sdk / "libMNN.so").read_bytes() == b"library"
        assert (ndk, headers) == (tmp_path / "ndk", None)
        say("building")
        return [
            elf_kit.write(
                out / "arm64-v8a", {"farm_runner": elf_kit.program(), "libMNN.so": elf_kit.build()["libMNN.so"]}
            )
        ]

    monkeypatch.setattr("harness.commands.bins.build_runner", build_runner)
    sdk = elf_kit.write(tmp_path / "mnn-sdk", {"libMNN.so": b"library"})
    if archive:
        sdk = tmp_path / "mnn-sdk.zip"
        with zipfile.ZipFile(sdk, "w") as file:
            file.writestr("libMNN.so", b"library")
    done = farm("build", "--sdk", sdk, "--ndk", tmp_path / "ndk")
    assert (done.exit_code, done.stdout, "building\n" in done.stderr) == (0, f"{cache}/mnn-sdk\n", True)
    [row] = json.loads(farm("list", "--json").stdout)["bundles"]
    assert (row["runner"], row["runners"], row["source"]) == ("farm_runner", ["farm_runner"], str(sdk))
    taken = farm("build", "--sdk", sdk)
    assert "there is a bundle mnn-sdk already" in str(taken.exception)
