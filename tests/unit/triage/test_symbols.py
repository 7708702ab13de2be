"""Frames without a function get it from the unstripped file of the same build, and of no other."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.triage.readers.crash import Frame
from harness.triage.symbols import Symbols, plain

BUILD_ID = "c0ffee00" * 5
RESIZE = "_ZN3MNN7Session6resizeEv"


def elf(functions: dict[str, tuple[int, int]], build_id: str = BUILD_ID) -> bytes:
    """A 64-bit ELF file with nothing in it but symbols, name → (start, size), and a build id."""
    names, symbols = b"\0", bytes(24)
    for name, (start, size) in functions.items():
        symbols += struct.pack("<IBBHQQ", len(names), 0x12, 0, 1, start, size)
        names += name.encode() + b"\0"
    note = struct.pack("<III", 4, len(build_id) // 2, 3) + b"GNU\0" + bytes.fromhex(build_id)
    titles = b"\0.symtab\0.strtab\0.note.gnu.build-id\0.shstrtab\0"
    # Type, link, entry size and content of each section.
    sections = [(2, 2, 24, symbols), (3, 0, 0, names), (7, 0, 0, note), (3, 0, 0, titles)]
    body, headers, places = b"", bytes(64), [1, 9, 17, 36]
    for title, (kind, link, entry, content) in zip(places, sections, strict=True):
        headers += struct.pack("<IIQQQQIIQQ", title, kind, 0, 0, 64 + len(body), len(content), link, 0, 4, entry)
        body += content
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 3, 183, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 5, 4)
    return ident + head + body + headers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "obj").mkdir()
    (tmp_path / "obj" / "libMNN.so").write_bytes(elf({RESIZE: (0x1000, 0x40), "main": (0x2000, 0x10)}))
    (tmp_path / "README.md").write_text("no binary", encoding="utf-8")
    (tmp_path / "broken.so").write_bytes(b"\x7fELF" + b"\0" * 20)
    return tmp_path


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (Frame(0, "/data/local/tmp/libMNN.so", None, BUILD_ID, "1018"), "MNN::Session::resize+24"),
        (Frame(0, "/data/app/x/base.apk!libMNN.so", None, None, "0000000000002004"), "main+4"),
        (Frame(0, "/renamed.so", None, BUILD_ID, "1000"), "MNN::Session::resize+0"),
        (Frame(0, "/data/local/tmp/libMNN.so", None, "ff" * 20, "1018"), None),
        (Frame(0, "/data/local/tmp/libllm.so", None, None, "1018"), None),
        (Frame(0, "/data/local/tmp/libMNN.so", None, None, "0010"), None),
        (Frame(0, "/data/local/tmp/libMNN.so", None, None, "1040"), None),
        (Frame(0, "/data/local/tmp/libMNN.so", None, BUILD_ID, None), None),
    ],
)
def test_a_frame_is_named_by_the_file_of_its_build(folder: Path, frame: Frame, name: str | None) -> None:
    assert Symbols(folder).name(frame) == name


@pytest.mark.parametrize(
    ("mangled", "name"),
    [(RESIZE, "MNN::Session::resize"), ("_ZNK3MNN4Full1fEi", "MNN::Full::f"), ("main", "main"), ("_ZN99xE", "_ZN99xE")],
)
def test_nested_names_are_shown_as_people_write_them(mangled: str, name: str) -> None:
    assert plain(mangled) == name


def test_the_command_shows_the_function(folder: Path) -> None:
    log = (
        "pid: 8123, tid: 8130, name: llm_demo  >>> ./llm_demo <<<\n"
        "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x7b00000000\nbacktrace:\n"
        f"      #00 pc 0000000000001018  /data/local/tmp/q/libMNN.so (BuildId: {BUILD_ID})\n"
    )
    told = CliRunner().invoke(app, ["triage", "-", "--symbols", str(folder)], input=log.encode()).output
    assert "1. error: Crash in MNN's code (SIGSEGV in libMNN.so, MNN::Session::resize+24)" in told
    assert "seen:   stdin:4: #00 libMNN.so MNN::Session::resize+24 (by its unstripped file)" in told
