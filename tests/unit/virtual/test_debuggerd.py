from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.virtual.adbd.debuggerd import frame_at, write_tombstone

MAPS = """\
55aa00000000-55aa00002000 r--p 00000000 fe:01 42 /data/local/tmp/my runner
55aa00002000-55aa00008000 r-xp 00002000 fe:01 42 /data/local/tmp/my runner
7f0000000000-7f0000021000 rwxp 00000000 00:00 0
"""


def test_a_program_counter_is_found_in_its_file() -> None:
    frame = frame_at(0x55AA00002345, MAPS)
    assert (frame.offset, frame.path) == (0x2345, "/data/local/tmp/my runner")


def test_a_program_counter_outside_of_files_is_said_to_be() -> None:
    assert frame_at(0x7F0000000010, MAPS).path == "<anonymous:00007f0000000000>"
    assert frame_at(0x10, MAPS).path == "<unknown>"


def test_tombstones_are_numbered_and_the_oldest_goes_first(tmp_path: Path) -> None:
    folder = tmp_path / "tombstones"
    names = [write_tombstone([f"number {number}"], folder) for number in range(32)]
    assert names == [f"tombstone_{number:02d}" for number in range(32)]
    folder.chmod(0o700)
    for age, name in enumerate(names):
        os.utime(folder / name, (1000 + age, 1000 + age))
    assert write_tombstone(["one more"], folder) == "tombstone_00"
    assert stat.S_IMODE(folder.stat().st_mode) == 0
    folder.chmod(0o700)
    assert (folder / "tombstone_00").read_text() == "one more\n"
