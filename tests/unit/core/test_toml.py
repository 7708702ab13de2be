from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import ConfigError
from harness.core.toml import format_toml, read_toml


def test_a_good_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('name = "ü"\n[a]\nb = [1, 2]\n', encoding="utf-8")
    assert read_toml(file) == {"name": "ü", "a": {"b": [1, 2]}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a = \n", "is not TOML: "),
        (b"a = 1\na = 2\n", "is not TOML: "),
        (b'a = "\xff"\n', "is not UTF-8 text (byte 5)"),
    ],
)
def test_a_file_that_is_no_toml_is_named_with_the_place(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_toml(file)
    assert str(caught.value).startswith(f"{file} {says}")
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"nothing\.toml cannot be read \(No such file or directory\): check the path"
    ):
        read_toml(tmp_path / "nothing.toml")
    with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\)"):
        read_toml(tmp_path)


WHOLE = {
    "schema": 1,
    "name": 'say "x" \\ \x7f\t\n é 😀',
    "yes": True,
    "half": 0.5,
    "files": ["a", "b"],
    "none": [],
    "programs": {"llm_bench": "bin/llm_bench"},
    "variants": [{"abi": "arm64-v8a", "pins": {"libMNN.so": "ab", 'odd "key"]': "cd"}}, {"abi": "x86", "pins": {}}],
}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(format_toml(WHOLE | {"unknown": None}), encoding="utf-8")
    assert read_toml(tmp_path / "x.toml") == WHOLE


def test_tables_come_after_what_is_no_table() -> None:
    assert format_toml({"t": {"a": 1, "u": {"b": [2]}}, "v": [{"c": "d"}], "e": False}) == (
        'e = false\n\n[t]\na = 1\n\n[t.u]\nb = [2]\n\n[[v]]\nc = "d"\n'
    )
