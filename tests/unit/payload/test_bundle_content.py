"""What a bundle is made of: files, or source that is built here; and what tells it from others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.core.reasons import Reason
from harness.core.resources import data_root
from harness.payload.bundle import Bundle, default_bundle, read_bundle
from harness.payload.bundle_manifest import Target

SYNTHETIC = data_root() / "device_bins" / "runner" / "synthetic"


def bundle_at(folder: Path, **changes: str) -> Path:
    """A bundle of one script; ``changes`` are lines of its manifest as TOML values, an empty one removes the line."""
    lines = {"schema": "1", "name": '"own"', "runner": '"farm_runner"', "backends": '["cpu"]'}
    lines.update({"program": '"run"', "files": '["run"]', **changes})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "bundle.toml").write_text("".join(f"{key} = {value}\n" for key, value in lines.items() if value))
    return folder


def with_args(folder: Path, *args: str) -> Bundle:
    """A copy of the synthetic runner with other orders."""
    shutil.copytree(SYNTHETIC, folder)
    manifest = folder / "bundle.toml"
    text = manifest.read_text().replace("extra_args = []", f"extra_args = {list(args)}")
    manifest.write_text(text)
    return read_bundle(folder)


def test_a_bundle_of_files_is_pushed_as_it_is(tmp_path: Path) -> None:
    bundle = read_bundle(bundle_at(tmp_path / "b"))
    assert [(file.path, file.executable) for file in bundle.folder.files] == [("run", True)]
    assert bundle.payload(Target()) == bundle.folder


def test_other_arguments_are_another_bundle(tmp_path: Path) -> None:
    plain = read_bundle(bundle_at(tmp_path / "a"))
    same = read_bundle(bundle_at(tmp_path / "b"))
    other = read_bundle(bundle_at(tmp_path / "c", extra_args='["--x", "1"]'))
    assert other.manifest.extra_args == ["--x", "1"]
    assert plain.hash == same.hash != other.hash
    assert plain.payload(Target()).hash == other.payload(Target(())).hash, "the same files are pushed"


def test_a_built_bundle_with_other_orders_has_another_name_and_the_same_program(tmp_path: Path) -> None:
    one, two = with_args(tmp_path / "one", "--synthetic", "load_ms=1"), with_args(tmp_path / "two")
    assert one.hash != two.hash == read_bundle(SYNTHETIC).hash
    assert one.payload(Target(("x86_64",))) == two.payload(Target(("x86_64",)))
    [program] = one.payload(Target(("x86_64",))).files
    assert (program.path, program.executable) == ("synthetic", True)


def test_other_source_is_another_bundle(tmp_path: Path) -> None:
    with_args(tmp_path / "b")
    with (tmp_path / "b" / "main.c").open("a") as file:
        file.write("/* changed */\n")
    assert read_bundle(tmp_path / "b").hash != read_bundle(SYNTHETIC).hash


def test_the_phones_first_abi_decides_which_program_it_gets() -> None:
    bundle = read_bundle(SYNTHETIC)
    wide = bundle.payload(
        Target(
            (
                "riscv64",
                "arm64-v8a",
                "armeabi-v7a",
            )
        )
    )
    narrow = bundle.payload(
        Target(
            (
                "armeabi-v7a",
                "arm64-v8a",
            )
        )
    )
    assert (wide.root.name, narrow.root.name) == ("arm64-v8a", "armeabi-v7a")
    with pytest.raises(ConfigError, match="the phone runs riscv64: choose another bundle") as caught:
        bundle.payload(Target(("riscv64",)))
    assert caught.value.reason is Reason.ABI_MISMATCH


def test_the_bundle_that_comes_with_the_product_is_read() -> None:
    assert default_bundle().manifest.name == "farm-runner-python"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"files": ""}, "files is missing or empty"),
        ({"program": '"else"'}, "program 'else' is not among its files"),
        ({"extra_args": '"-x"'}, "extra_args"),
        ({"extra_args": "[1]"}, "extra_args"),
        ({"extra_args": r'["a\u0000b"]'}, "extra_args"),
        ({"build": '"make"'}, "build"),
        ({"build": '"zig"'}, "there is no C file to build beside it"),
    ],
)
def test_a_wrong_manifest_is_one_sentence_that_names_the_file(
    tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    folder = bundle_at(tmp_path / "b", **changes)
    with pytest.raises(ConfigError) as caught:
        read_bundle(folder)
    assert str(caught.value).startswith(f"{folder / 'bundle.toml'}: ")
    assert said in str(caught.value)


def test_a_built_bundle_lists_abis_and_no_files(tmp_path: Path) -> None:
    folder = bundle_at(tmp_path / "b", build='"zig"')
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    with pytest.raises(ConfigError, match="a program that is built needs abis, a plain name and no files"):
        read_bundle(folder)
