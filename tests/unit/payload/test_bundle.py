from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.payload.bundle import default_bundle, read_bundle

GOOD = 'name = "toy"\nrunner = "farm_runner"\nbackends = ["cpu"]\nprogram = "run"\nfiles = ["run", "lib.so"]\n'


def write(folder: Path, manifest: str) -> Path:
    (folder / "bundle.toml").write_text(manifest)
    (folder / "run").write_bytes(b"x")
    (folder / "lib.so").write_bytes(b"y")
    (folder / "notes.txt").write_bytes(b"not pushed")
    return folder


def test_a_bundle_holds_the_files_it_names_and_its_program_can_run(tmp_path: Path) -> None:
    bundle = read_bundle(write(tmp_path, GOOD))
    assert [(f.path, f.executable) for f in bundle.folder.files] == [("lib.so", False), ("run", True)]
    assert (bundle.manifest.engine, bundle.manifest.abis, bundle.manifest.needs_python_mnn) == ("MNN", [], False)


def test_the_manifest_is_no_part_of_what_is_pushed(tmp_path: Path) -> None:
    first = read_bundle(write(tmp_path, GOOD)).folder.hash
    assert read_bundle(write(tmp_path, GOOD + 'abis = ["arm64-v8a"]\n')).folder.hash == first


def test_the_products_own_bundle_is_good() -> None:
    bundle = default_bundle()
    assert bundle.manifest.backends == ["cpu", "opencl", "vulkan"]
    assert [f.path for f in bundle.folder.files if f.executable] == ["farm_runner.py"]


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (GOOD.replace('"run"\n', '"runs"\n'), "program 'runs' is not among its files: add it there"),
        (
            GOOD.replace('"farm_runner"', '"llama"'),
            "runner: input should be 'farm_runner', 'llm_bench', 'llm_demo', 'modulebasic'",
        ),
        (GOOD.replace('"toy"', '"../toy"'), "name: string should match pattern"),
        (GOOD.replace('["cpu"]', "[]"), "backends needs at least one value"),
        (GOOD + "abi = 1\n", "unknown key 'abi'; did you mean 'abis'?"),
        (GOOD.replace('program = "run"\n', ""), "the key 'program' is missing"),
        (GOOD + 'needs_python_mnn = "yes"\n', "needs_python_mnn: input should be a valid boolean, not 'yes'"),
    ],
)
def test_what_is_wrong_with_a_manifest_is_said_in_one_sentence(tmp_path: Path, manifest: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_bundle(write(tmp_path, manifest))
    assert str(caught.value).startswith(f"{tmp_path / 'bundle.toml'}: {says}")


def test_a_file_that_is_missing_or_leads_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.so cannot be read"):
        read_bundle(write(tmp_path, GOOD.replace("lib.so", "gone.so")))
    with pytest.raises(ConfigError, match="leads out of"):
        read_bundle(write(tmp_path, GOOD.replace("lib.so", "../lib.so")))


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"bundle\.toml cannot be read \(No such file or directory\)"):
        read_bundle(tmp_path)
