"""The command that a person pastes does what ran, whatever stands in its words."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

from harness.bench.crash_command import command_text
from harness.runners.base import MAIN, Step

EVIL = 'it\'s; $(touch evil) `touch evil` "$HOME" \\ \n*'


def test_it_does_the_same_on_a_computer_as_it_says(make: ModuleType, tmp_path: Path) -> None:
    work = tmp_path / "phone" / "w 1"
    step = Step(
        MAIN,
        ("sh", "-c", 'cat "$0/config.json" link; printf "%s|%s" "$1" "$WORD"; exit 7', ".", EVIL),
        files={"config.json": b"{}", "sub/x": b"1"},
        links={"link": str(tmp_path / "target")},
        env={"WORD": EVIL},
    )
    (tmp_path / "target").write_text("linked")
    for name, content in step.files.items():
        here = tmp_path / "work" / MAIN / name
        here.parent.mkdir(parents=True, exist_ok=True)
        here.write_bytes(content)
    text = command_text(make.order(work_dir=str(work)), [step], "", None)
    done = subprocess.run(["bash", "-c", text], cwd=tmp_path, capture_output=True, check=False, timeout=30)
    assert done.stdout.decode() == f"{{}}linked{EVIL}|{EVIL}exit code 7\n", done.stderr
    assert (work / "sub" / "x").read_bytes() == b"1"
    assert not list(tmp_path.rglob("evil"))


def test_on_adb_every_word_is_quoted_for_both_shells_and_the_server_is_named_where_it_is_not_the_usual_one(
    make: ModuleType,
) -> None:
    order, step = make.order(), Step(MAIN, ("./run", "a b"), files={"c.json": b""})
    lines = command_text(order, [step], "S1", "127.0.0.1:5037").splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == [
        "adb -s S1 shell 'mkdir -p /w'",
        "adb -s S1 push work/main/c.json /w/c.json",
        "adb -s S1 shell 'cd /w && ./run '\"'\"'a b'\"'\"'; echo \"exit code $?\"'",
    ]
    assert "adb -H lab-2 -P 5038 -s S1 shell" in command_text(order, [step], "S1", "lab-2:5038")
