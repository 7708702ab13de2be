from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.virtual.sensorfiles import SensorFiles


def place(root: Path, text: str, mode: int = 0o444) -> Path:
    path = root / "sys" / "temp"
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_reader_that_keeps_the_file_open_sees_the_new_value(tmp_path: Path) -> None:
    path = place(tmp_path, "31900\n")
    fd = os.open(path, os.O_RDONLY)
    SensorFiles(tmp_path).put("/sys/temp", "45250\n")
    assert os.pread(fd, 64, 0) == b"45250\n"
    os.close(fd)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444


def test_a_shorter_value_is_filled_up_so_that_the_file_never_shrinks(tmp_path: Path) -> None:
    path = place(tmp_path, "3302400\n")
    files = SensorFiles(tmp_path)
    files.put("/sys/temp", "672000\n")
    assert path.read_text() == "672000\n\n"
    files.put("/sys/temp", "3302400\n")
    assert path.read_text() == "3302400\n"


def test_an_unchanged_value_is_not_written_again(tmp_path: Path) -> None:
    path = place(tmp_path, "1\n")
    files = SensorFiles(tmp_path)
    files.put("/sys/temp", "2\n")
    path.chmod(0o644)
    path.write_text("9\n")
    files.put("/sys/temp", "2\n")
    assert path.read_text() == "9\n"


def test_a_file_that_is_denied_or_missing_is_left_alone(tmp_path: Path) -> None:
    path = place(tmp_path, "1\n", 0)
    files = SensorFiles(tmp_path)
    files.put("/sys/temp", "2\n")
    files.put("/sys/none", "2\n")
    path.chmod(0o644)
    assert path.read_text() == "1\n"
    assert not (tmp_path / "sys" / "none").exists()
