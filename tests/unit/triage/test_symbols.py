"""Frames without a function get it from the unstripped file of the same build, and of no other."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from harness.cli import app
from harness.triage.demangle import plain
from harness.triage.readers.crash import Frame
from harness.triage.source_lines import SourceLines
from harness.triage.symbols import Symbols

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
        (Frame(0, "/data/local/tmp/libMNN.so", None, BUILD_ID, "1018"), "MNN::Session::resize()+24"),
        (Frame(0, "/data/app/x/base.apk!libMNN.so", None, None, "0000000000002004"), "main+4"),
        (Frame(0, "/renamed.so", None, BUILD_ID, "1000"), "MNN::Session::resize()+0"),
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
    [
        (RESIZE, "MNN::Session::resize()"),
        ("_ZNK3MNN4Full1fEi", "MNN::Full::f(int) const"),
        ("_ZN3MNN7SessionC2Ei", "MNN::Session::Session(int)"),
        ("_ZN3MNN6HolderIiED0Ev", "MNN::Holder<int>::~Holder()"),
        ("_ZNK3MNN7SessioneqERKS0_", "MNN::Session::operator==(MNN::Session const&) const"),
        (
            "_ZN3MNN12_GLOBAL__N_14hideERNSt3__16vectorIfEE",
            "MNN::(anonymous namespace)::hide(std::__1::vector<float>&)",
        ),
        ("_ZZN3MNN3runEiENK3$_0clEi", "MNN::run(int)::$_0::operator()(int) const"),
        ("_ZThn16_N3MNN4Loop4stepEv", "non-virtual thunk to MNN::Loop::step()"),
        ("_Z5startv", "start()"),
        ("main", "main"),
        ("MNNPackedMatMul", "MNNPackedMatMul"),
        ("_ZN99xE", "_ZN99xE"),
        ("_ZN3MNN", "_ZN3MNN"),
        ("_Z\udcff", "_Z\udcff"),
        ("_Z", "_Z"),
        ("_ZN" + "1aIN" * 500, "_ZN" + "1aIN" * 500),
        ("_Z1f" + "i" * 3999, "_Z1f" + "i" * 3999),
    ],
)
def test_names_are_shown_as_people_write_them(mangled: str, name: str) -> None:
    assert plain(mangled) == name


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*"NEIZSTJKPRAFMDLXCU_01234abv", "3MNN", "St", "Ut", "cv", "S_", "_Z"]), max_size=25))
def test_no_name_breaks_it(parts: list[str]) -> None:
    assert plain("_Z" + "".join(parts))


def test_of_one_build_the_stripped_file_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "symbols").mkdir()
    (tmp_path / "libMNN.so").write_bytes(elf({"exported": (0x1000, 0x4000)}))
    (tmp_path / "symbols" / "libMNN.so").write_bytes(elf({"exported": (0x1000, 0x40), RESIZE: (0x1040, 0x40)}))
    for build_id in (BUILD_ID, None):
        assert Symbols(tmp_path).name(Frame(0, "/x/libMNN.so", None, build_id, "1048")) == "MNN::Session::resize()+8"


def test_without_a_build_id_two_builds_of_a_name_are_not_told_apart(folder: Path) -> None:
    (folder / "libMNN.so").write_bytes(elf({"other": (0x1000, 0x40)}, "ab" * 20))
    symbols = Symbols(folder)
    assert symbols.name(Frame(0, "/x/libMNN.so", None, None, "1018")) is None
    assert symbols.name(Frame(0, "/x/libMNN.so", None, "ab" * 20, "1018")) == "other+24"
    assert symbols.name(Frame(0, "/x/libMNN.so", None, None, "00001018")) is None, "it is of 32 bits, none of these is"


def test_a_function_that_does_not_tell_its_size_goes_to_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "libMNN.so").write_bytes(elf({"MNNKernel": (0x1000, 0), "next": (0x1200, 0x10), "last": (0x2000, 0)}))
    symbols = Symbols(tmp_path)
    found = [symbols.name(Frame(0, "/x/libMNN.so", None, BUILD_ID, pc)) for pc in ("11ff", "1210", "2004", "12001")]
    assert found == ["MNNKernel+511", None, "last+4", None]


def test_an_odd_address_is_one_but_on_32_bit_arm(tmp_path: Path) -> None:
    (tmp_path / "libMNN.so").write_bytes(elf({"odd": (0x1001, 0x40)}))
    assert Symbols(tmp_path).name(Frame(0, "/x/libMNN.so", None, BUILD_ID, "1011")) == "odd+16"
    thumb = bytearray(elf({"odd": (0x1001, 0x40)}))
    thumb[18:20] = struct.pack("<H", 40)
    (tmp_path / "libMNN.so").write_bytes(thumb)
    assert Symbols(tmp_path).name(Frame(0, "/x/libMNN.so", None, BUILD_ID, "1010")) == "odd+16"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(4, 500), st.integers(0, 255)), max_size=6), st.integers(4, 600))
def test_no_broken_file_breaks_it(tmp_path: Path, changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(elf({RESIZE: (0x1000, 0x40)}))
    for place, value in changes:
        data[place % len(data)] = value
    (tmp_path / "libMNN.so").write_bytes(data[:length])
    for build_id in (None, BUILD_ID):
        Symbols(tmp_path).name(Frame(0, "/x/libMNN.so", None, build_id, "ffffffffffffffff"))


def test_the_command_shows_the_function(folder: Path) -> None:
    log = (
        "pid: 8123, tid: 8130, name: llm_demo  >>> ./llm_demo <<<\n"
        "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x7b00000000\nbacktrace:\n"
        f"      #00 pc 0000000000001018  /data/local/tmp/q/libMNN.so (BuildId: {BUILD_ID})\n"
    )
    told = CliRunner().invoke(app, ["triage", "-", "--symbols", str(folder)], input=log.encode()).output
    assert "1. error: Crash in MNN's code (SIGSEGV in libMNN.so, MNN::Session::resize()+24)" in told
    assert "seen:   stdin:4: #00 libMNN.so MNN::Session::resize()+24 (by its unstripped file)" in told


def test_files_of_another_build_are_named(folder: Path) -> None:
    log = "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x7b00000000\n"
    log += f"#00 pc 01018  /x/libMNN.so (BuildId: {'ab' * 20})\n"
    done = CliRunner().invoke(app, ["triage", "-", "--symbols", str(folder), "--json"], input=log.encode())
    assert f"libMNN.so in {folder} is of another build than the log's (BuildId {'ab' * 20})" in done.stderr
    assert json.loads(done.stdout)["findings"]


SOURCE = """static inline __attribute__((always_inline)) int tiny(int *p) {
  return *p + 1;
}
int resize(int *p) {
  *p += 5;
  return tiny(p);
}
"""


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("how", [("-shared", "-fPIC"), ("-static", "-Wl,-e,resize")])
def test_a_file_with_dwarf_tells_the_line_and_inlined_code_its_own(
    tmp_path: Path, version: int, how: tuple[str, ...]
) -> None:
    (tmp_path / "toy.c").write_text(SOURCE)
    words = [
        "cc",
        "-target",
        "aarch64-linux-none",
        "-nostdlib",
        "-O1",
        f"-gdwarf-{version}",
        *how,
        "-Wl,--build-id=sha1",
    ]
    words += ["-o", str(tmp_path / "libtoy.so"), str(tmp_path / "toy.c")]
    subprocess.run([sys.executable, "-m", "ziglang", *words], check=True, timeout=120, capture_output=True)
    with (tmp_path / "libtoy.so").open("rb") as stream:
        [table] = [one for one in ELFFile(stream).iter_sections() if one.name == ".symtab"]
        start = table.get_symbol_by_name("resize")[0]["st_value"]
    places = [Frame(0, "/x/libtoy.so", None, None, f"{start + offset:016x}") for offset in range(0, 24, 4)]
    named = [Symbols(tmp_path).name(frame) for frame in places]
    assert (named[0], named[-1]) == ("resize+0 at toy.c:5", "resize+20 at toy.c:6")
    assert any(str(one).endswith(" at toy.c:2") for one in named)
    assert Symbols(tmp_path, lines=False).name(places[0]) == "resize+0"
    assert SourceLines(budget_s=0).at(tmp_path / "libtoy.so", start) is None


@pytest.fixture(scope="module")
def with_dwarf(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("dwarf")
    (folder / "toy.c").write_text(SOURCE)
    words = ["cc", "-target", "aarch64-linux-none", "-nostdlib", "-shared", "-gdwarf-5", "-o", str(folder / "toy.so")]
    subprocess.run([sys.executable, "-m", "ziglang", *words, str(folder / "toy.c")], check=True, capture_output=True)
    return (folder / "toy.so").read_bytes()


def test_dwarf_that_is_broken_in_a_byte_costs_the_line_alone(tmp_path: Path, with_dwarf: bytes) -> None:
    elf_file = ELFFile(io.BytesIO(with_dwarf))
    place = elf_file.get_section_by_name(".symtab").get_symbol_by_name("resize")[0]["st_value"]
    for name, step in ((".debug_info", 1), (".debug_abbrev", 8), (".debug_line", 8)):
        section = elf_file.get_section_by_name(name)
        for offset in range(section["sh_offset"], section["sh_offset"] + section.data_size, step):
            data = bytearray(with_dwarf)
            data[offset] = 255
            (tmp_path / "toy.so").write_bytes(data)
            named = Symbols(tmp_path).name(Frame(0, "/x/toy.so", None, None, f"{place:x}"))
            assert str(named).split(" at ")[0] == "resize+0"
