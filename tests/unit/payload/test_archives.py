"""Archives from anywhere: what they may hold is unpacked, anything else is refused by name and with what to do."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import random
import stat
import struct
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.core.errors import BundleError, ConfigError, HostError
from harness.payload import archive_entries
from harness.payload.archives import archive_kind, unpack

PACK_AGAIN = "pack it again, or unpack it yourself and name the folder"
FETCH_AGAIN = "download or pack it again"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def zipped(file: Path, *entries: tuple[str, bytes, int]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in entries:
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return file


def member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def tarred(file: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(file, "w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return file


def refusal(archive: Path, target: Path) -> BundleError:
    with pytest.raises(BundleError) as caught:
        unpack(archive, target)
    assert caught.value.reason.code == "bundle_mismatch"
    return caught.value


BUNDLE = (member("mnn/llm_bench", b"program", mode=0o750), member("mnn/lib/libMNN.so", b"library", mode=0o640))


@pytest.mark.parametrize(
    ("kind", "pack"),
    [
        ("tar", lambda data: data),
        ("gzip", gzip.compress),
        ("bzip2", bz2.compress),
        ("xz", lzma.compress),
    ],
)
def test_a_tar_is_known_by_its_content_and_its_programs_stay_programs(
    kind: str, pack: Callable[[bytes], bytes], tmp_path: Path, target: Path
) -> None:
    archive = tmp_path / "named.anyhow"
    archive.write_bytes(pack(tarred(tmp_path / "plain.tar", *BUNDLE).read_bytes()))
    assert archive_kind(archive) == kind
    unpack(archive, target)
    assert tree(target) == {"mnn/lib/libMNN.so": b"library", "mnn/llm_bench": b"program"}
    assert stat.S_IMODE((target / "mnn/llm_bench").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "mnn/lib/libMNN.so").stat().st_mode) == 0o644


def test_a_zip_keeps_programs_folders_and_links_that_stay_inside(tmp_path: Path, target: Path) -> None:
    archive = zipped(
        tmp_path / "a.zip",
        ("mnn/", b"", stat.S_IFDIR | 0o755),
        ("mnn/llm_bench", b"program", stat.S_IFREG | 0o700),
        ("mnn\\lib\\libMNN.so.3", b"library", 0),
        ("mnn/lib/libMNN.so", b"libMNN.so.3", stat.S_IFLNK | 0o777),
    )
    unpack(archive, target)
    assert tree(target) == {
        "mnn/lib/libMNN.so": b"library",
        "mnn/lib/libMNN.so.3": b"library",
        "mnn/llm_bench": b"program",
    }
    assert os.access(target / "mnn/llm_bench", os.X_OK)
    assert (target / "mnn/lib/libMNN.so").is_symlink()


def test_a_tars_hard_links_become_files_of_their_own(tmp_path: Path, target: Path) -> None:
    link = member("b", type=tarfile.LNKTYPE, linkname="a", mode=0o755)
    unpack(tarred(tmp_path / "a.tar", member("a", b"same"), link), target)
    assert tree(target) == {"a": b"same", "b": b"same"}
    assert (target / "a").stat().st_ino != (target / "b").stat().st_ino


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../evil.so", "entry '../evil.so' leads out of the folder it is unpacked to"),
        ("a/../../evil.so", "entry 'a/../../evil.so' leads out of"),
        ("a\\..\\..\\evil.so", r"entry 'a\\..\\..\\evil.so' leads out of"),
        ("/etc/evil.so", "entry '/etc/evil.so' has an absolute path"),
        ("C:\\evil.so", r"entry 'C:\\evil.so' has an absolute path"),
        ("a\x1b[2Jb.so", r"entry 'a\x1b[2Jb.so' has a name that cannot be printed"),
        ("x" * 300, "has too long a name"),
    ],
)
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_name_that_leads_elsewhere_is_refused(form: str, name: str, says: str, tmp_path: Path, target: Path) -> None:
    good = "ok.so"
    if form == "zip":
        archive = zipped(tmp_path / "a.zip", (good, b"x", 0o644), (name, b"evil", 0o644))
    else:
        archive = tarred(tmp_path / "a.tar", member(good, b"x"), member(name, b"evil"))
    error = refusal(archive, target)
    assert (error.check, error.remedy) == ("archive_unsafe", PACK_AGAIN)
    assert says in error.message
    assert set(tree(tmp_path)) == {archive.name, "out/ok.so"}


@pytest.mark.parametrize(
    ("to", "check", "says"),
    [
        ("/etc/passwd", "archive_unsafe", "entry 'lib/libMNN.so' is a link to '/etc/passwd', out of the archive"),
        ("../../secret", "archive_unsafe", "entry 'lib/libMNN.so' is a link to '../../secret', out of the archive"),
        ("", "archive_unsafe", "is a link to '', out of the archive"),
        ("gone.so", "archive_broken", "is a link to 'gone.so', which is not in the archive"),
        ("libMNN.so", "archive_broken", "is a link to 'libMNN.so', which is not in the archive"),
    ],
)
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_link_that_leads_out_or_nowhere_is_refused(
    form: str, to: str, check: str, says: str, tmp_path: Path, target: Path
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    name = "lib/libMNN.so"
    if form == "zip":
        archive = zipped(tmp_path / "a.zip", (name, to.encode(), stat.S_IFLNK | 0o777))
    else:
        archive = tarred(tmp_path / "a.tar", member(name, type=tarfile.SYMTYPE, linkname=to))
    error = refusal(archive, target)
    assert error.check == check
    assert says in error.message
    assert error.remedy in (PACK_AGAIN, "pack the file itself instead of the link")


def test_links_that_together_lead_out_are_refused(tmp_path: Path, target: Path) -> None:
    archive = tarred(
        tmp_path / "a.tar",
        member("a/b", b"", type=tarfile.DIRTYPE),
        member("a/b/up", type=tarfile.SYMTYPE, linkname=".."),
        member("out", type=tarfile.SYMTYPE, linkname="a/b/up/../.."),
    )
    error = refusal(archive, target)
    assert (error.check, "entry 'out' is a link to 'a/b/up/../..', out of" in error.message) == ("archive_unsafe", True)


def test_nothing_is_written_through_a_link(tmp_path: Path, target: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    archive = tarred(
        tmp_path / "a.tar",
        member("lib", type=tarfile.SYMTYPE, linkname=str(tmp_path / "elsewhere")),
        member("lib/evil.so", b"evil"),
    )
    assert refusal(archive, target).check == "archive_unsafe"
    inside = tarred(
        tmp_path / "b.tar", member("lib", type=tarfile.SYMTYPE, linkname="."), member("lib/evil.so", b"evil")
    )
    assert "entry 'lib/evil.so' would be written below a file or through a link" in refusal(inside, target).message
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"])
def test_a_device_or_a_pipe_in_a_tar_is_refused(kind: bytes, tmp_path: Path, target: Path) -> None:
    error = refusal(tarred(tmp_path / "a.tar", member("dev/null", type=kind)), target)
    assert (error.check, "entry 'dev/null' is a device, a pipe" in error.message) == ("archive_unsafe", True)


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_a_device_or_a_pipe_in_a_zip_is_refused(kind: int, tmp_path: Path, target: Path) -> None:
    error = refusal(zipped(tmp_path / "a.zip", ("pipe", b"", kind | 0o644)), target)
    assert (error.check, "entry 'pipe' is a device, a pipe or a socket" in error.message) == ("archive_unsafe", True)


def test_a_hard_link_to_no_file_before_it_is_refused(tmp_path: Path, target: Path) -> None:
    for to in ("../secret", "/etc/passwd", "later"):
        error = refusal(tarred(tmp_path / "a.tar", member("b", type=tarfile.LNKTYPE, linkname=to)), target)
        assert (error.check, "which is no file before it" in error.message) == ("archive_unsafe", True)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_never_replaces_another(tmp_path: Path, target: Path) -> None:
    twice = zipped(tmp_path / "a.zip", ("libMNN.so", b"first", 0o644), ("./libMNN.so", b"second", 0o644))
    error = refusal(twice, target)
    assert (error.check, error.remedy) == ("archive_unsafe", PACK_AGAIN)
    assert "entry './libMNN.so' is there twice: the second would replace the first" in error.message
    assert tree(target) == {"libMNN.so": b"first"}


def test_a_file_where_a_folder_was_and_the_other_way_round_is_refused(tmp_path: Path, target: Path) -> None:
    assert refusal(tarred(tmp_path / "a.tar", member("a/b", b"1"), member("a", b"2")), target).check == "archive_unsafe"
    assert refusal(tarred(tmp_path / "b.tar", member("c", b"1"), member("c/d", b"2")), target).check == "archive_unsafe"
    assert refusal(tarred(tmp_path / "c.tar", member(".", b"2")), target).message.endswith("entry '.' has no name")
    assert refusal(zipped(tmp_path / "d.zip", ("", b"3", 0)), target).message.endswith("entry '' has no name")


def test_a_zip_bomb_is_refused_by_what_it_declares_before_anything_is_written(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_entries, "MAX_BYTES", 5_000_000)
    bomb = zipped(tmp_path / "a.zip", *((f"zeros{n}", bytes(2_000_000), 0o644) for n in range(3)))
    assert bomb.stat().st_size < 10_000
    error = refusal(bomb, target)
    assert (error.check, error.remedy) == (
        "archive_unsafe",
        "make room on the disk, or unpack it yourself and name the folder",
    )
    assert "entry 'zeros2' is too big: that makes 6,000,000 bytes in all, and 5,000,000 may be written" in error.message
    assert tree(target) == {}


def test_a_bomb_that_lies_about_its_size_is_not_unpacked_beyond_what_it_said(tmp_path: Path, target: Path) -> None:
    data = zipped(tmp_path / "a.zip", ("zeros", bytes(3_000_000), 0o644)).read_bytes()
    (tmp_path / "a.zip").write_bytes(data.replace((3_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    error = refusal(tmp_path / "a.zip", target)
    assert (error.check, error.remedy) == ("archive_broken", FETCH_AGAIN)
    assert (target / "zeros").stat().st_size <= 10


def test_a_disk_without_room_refuses_a_tar_as_well(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = archive_entries.KEEP_FREE_BYTES + 10
    monkeypatch.setattr(archive_entries.shutil, "disk_usage", lambda _: shutil_usage(free))
    archive = tarred(tmp_path / "a.tar", member("a", b"12345"), member("b", b"123456"))
    assert "entry 'b' is too big: that makes 11 bytes in all, and 10 may be written" in refusal(archive, target).message
    assert tree(target) == {"a": b"12345"}


def shutil_usage(free: int) -> object:
    return type("Usage", (), {"free": free})()


def test_too_many_entries_are_refused(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_entries, "MAX_ENTRIES", 3)
    archive = tarred(tmp_path / "a.tar", *(member(f"{n}") for n in range(4)))
    assert "entry '3' is one too many: more than 3 are not unpacked" in refusal(archive, target).message


@pytest.mark.parametrize("kind", ["zip", "tar", "gzip", "bzip2", "xz"])
def test_an_archive_that_is_cut_off_is_refused_wherever_it_ends(kind: str, tmp_path: Path, target: Path) -> None:
    content = random.Random(1).randbytes(3000)  # noqa: S311
    plain = tarred(tmp_path / "plain", member("a", content), member("b", b"x", mode=0o755)).read_bytes()[:5632]
    whole = {
        "zip": zipped(tmp_path / "z", ("a", content, 0o644), ("b", b"x", 0o755)).read_bytes(),
        "tar": plain,
        "gzip": gzip.compress(plain),
        "bzip2": bz2.compress(plain),
        "xz": lzma.compress(plain),
    }[kind]
    ends = {*range(600, len(whole) - 1024 * (kind == "tar"), 197), len(whole) - 1024 * (kind == "tar") - 1}
    for number, end in enumerate(sorted(ends)):
        cut, folder = tmp_path / f"{number}.{kind}", target / str(number)
        cut.write_bytes(whole[:end])
        folder.mkdir()
        error = refusal(cut, folder)
        assert (error.check, error.remedy) == ("archive_broken", FETCH_AGAIN), end
        assert str(cut) in error.message


@pytest.mark.parametrize(
    ("content", "says", "remedy"),
    [
        (b"", "is neither a zip nor a tar", "name a folder, a zip, a tar (plain, gz, bz2, xz), an APK or an AAB"),
        (b"text" * 200, "is neither a zip nor a tar", "name a folder, a zip"),
        (b"\x7fELF" + bytes(600), "is a single program or library, not an archive", "name the folder that it lies in"),
        (b"PK\x03\x04" + bytes(600), "cannot be read (File is not a zip file)", FETCH_AGAIN),
        (b"7z\xbc\xaf\x27\x1c" + bytes(600), "is a 7z archive, which is not read here", "unpack it yourself"),
        (b"Rar!\x1a\x07\x01\x00", "is a rar archive, which is not read here", "unpack it yourself"),
        (gzip.compress(b"no tar " * 200), "cannot be read", FETCH_AGAIN),
        (gzip.compress(b""), "cannot be read", FETCH_AGAIN),
    ],
)
def test_what_is_no_archive_is_refused(content: bytes, says: str, remedy: str, tmp_path: Path, target: Path) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    error = refusal(tmp_path / "x.zip", target)
    assert error.check == "archive_broken"
    assert says in error.message
    assert error.remedy.startswith(remedy)


def test_a_zip_whose_directory_would_fill_the_memory_is_refused(tmp_path: Path, target: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04")
    size = 64 << 20
    os.truncate(tmp_path / "x.zip", size)
    with (tmp_path / "x.zip").open("ab") as file:
        file.write(b"PK\x05\x06" + struct.pack("<4H2IH", 0, 0, 65535, 65535, size - 8, 8, 0))
    error = refusal(tmp_path / "x.zip", target)
    assert (error.check, error.remedy) == ("archive_unsafe", "unpack it yourself and name the folder")
    assert f"its list of entries has {size - 8:,} bytes" in error.message


def test_a_git_lfs_pointer_to_an_archive_is_told(tmp_path: Path, target: Path) -> None:
    (tmp_path / "x.zip").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    error = refusal(tmp_path / "x.zip", target)
    assert (error.check, error.remedy) == ("not_an_elf", "run git lfs pull where it lies")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python reads zstd")
def test_zstd_is_refused_where_python_cannot_read_it(tmp_path: Path, target: Path) -> None:
    (tmp_path / "x.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    error = refusal(tmp_path / "x.tar.zst", target)
    assert "is compressed with zstd, which this Python cannot read" in error.message
    assert error.remedy == "unpack it yourself and name the folder"


def test_an_encrypted_zip_is_refused(tmp_path: Path, target: Path) -> None:
    data = bytearray(zipped(tmp_path / "a.zip", ("a", b"secret", 0o644)).read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(data)
    error = refusal(tmp_path / "a.zip", target)
    assert (error.check, error.message.endswith("entry 'a' is encrypted")) == ("archive_broken", True)


def test_a_tar_whose_header_leads_backwards_or_asks_for_gigabytes_ends(tmp_path: Path, target: Path) -> None:
    for kind, size in ((tarfile.REGTYPE, -1024), (tarfile.XHDTYPE, 1 << 40), (tarfile.GNUTYPE_LONGNAME, 1 << 33)):
        info, _ = member("a", type=kind)
        info.size = 0
        header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
        header[124:136] = (size % (1 << 96)).to_bytes(12, "big") if size < 0 else b"\x80" + size.to_bytes(11, "big")
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        archive = tmp_path / "a.tar"
        archive.write_bytes(bytes(header) + bytes(2048))
        assert refusal(archive, target).check in ("archive_broken", "archive_unsafe")


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_bytes_changed_at_random_never_break_the_reader_or_leave_the_folder(form: str, tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311
    entries = [(f"d/{n}", chance.randbytes(200)) for n in range(4)]
    if form == "zip":
        whole = zipped(tmp_path / "whole", *((name, content, 0o755) for name, content in entries)).read_bytes()
    else:
        whole = tarred(tmp_path / "whole", *(member(*entry) for entry in entries)).read_bytes()[:6144]
    for number in range(150):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        archive, folder = tmp_path / "fuzz", tmp_path / f"out{number}"
        archive.write_bytes(data)
        folder.mkdir()
        with contextlib.suppress(ConfigError):  # whatever else comes fails the test
            unpack(archive, folder)
    assert {path.name for path in tmp_path.iterdir()} == {"whole", "fuzz", *(f"out{n}" for n in range(150))}


def test_a_folder_that_cannot_be_written_is_this_computers_fault(tmp_path: Path, target: Path) -> None:
    (target / "mnn").write_bytes(b"in the way")
    with pytest.raises(HostError, match=r"a\.tar cannot be unpacked to .*out \("):
        unpack(tarred(tmp_path / "a.tar", *BUNDLE), target)


def test_a_file_that_is_not_there_is_told(tmp_path: Path, target: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.zip cannot be read \(No such file or directory\): check the path"):
        unpack(tmp_path / "gone.zip", target)
