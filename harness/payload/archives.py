"""Unpacks an archive from anywhere: what would land outside its folder, over another file or without end is refused.

Zip and tar, the latter plain or compressed with gzip, bzip2, xz or (where Python can) zstd. What a file is says its
content, never its name. Each refusal is a :class:`BundleError` whose ``check`` is ``archive_unsafe`` (it asks for
something that unpacking must not do) or ``archive_broken`` (it cannot be read to its end); it names the entry.
"""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from harness.core.errors import BundleError, ConfigError
from harness.payload.archive_entries import BROKEN, UNPACK_IT, Unpacking, broken, shown
from harness.payload.archive_tar import COMPRESSIONS, unpack_tar

_LFS_POINTER = b"version https://git-lfs"
_MAGIC = {
    "zip": (b"PK\x03\x04", b"PK\x05\x06"),
    "gzip": (b"\x1f\x8b",),
    "bzip2": (b"BZh",),
    "xz": (b"\xfd7zXZ\x00",),
    "zstd": (b"\x28\xb5\x2f\xfd",),
    "7z": (b"7z\xbc\xaf\x27\x1c",),
    "rar": (b"Rar!\x1a\x07",),
    "elf": (b"\x7fELF",),
}
_TAR_MAGIC_AT = 257
#: Zips end with a record of 22 bytes and a comment; before it, where they are big, lies one with wider numbers.
_ZIP_END, _ZIP64_END = b"PK\x05\x06", b"PK\x06\x06"
_ZIP_TAIL_BYTES = 65535 + 22 + 20 + 56
#: Generous for as many entries as are ever unpacked; zipfile would read a directory of any size.
_MAX_DIRECTORY_BYTES = 16 * 1024**2


def archive_kind(path: Path) -> str:
    """Return what a file is by its first bytes: ``zip``, ``tar``, a compression, ``elf``, …; ``""``: nothing known.

    Raises:
        ConfigError: it cannot be read, or it is the Git LFS pointer to an archive (a :class:`BundleError`).
    """
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})", remedy="check the path") from error
    if head.startswith(_LFS_POINTER):
        raise BundleError(
            "not_an_elf", f"{path} is a Git LFS pointer, not the file itself", remedy="run git lfs pull where it lies"
        )
    for kind, magics in _MAGIC.items():
        if head.startswith(magics):
            return kind
    return "tar" if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar" else ""


def unpack(archive: Path, target: Path) -> None:
    """Unpack a zip or a tar into ``target``, an empty folder that nobody else writes to.

    Programs keep that they are programs; owners, times and other bits of the mode do not count.

    Raises:
        BundleError: it is refused, ``check`` and message say why. What was unpacked so far stays in ``target``.
        ConfigError: it cannot be read at all.
        HostError: ``target`` cannot be written.
    """
    kind = archive_kind(archive)
    if kind == "zip":
        with open_zip(archive) as entries:
            unpack_zip(archive, entries, target, lambda name: name)
    elif kind == "tar" or kind in COMPRESSIONS:
        unpack_tar(archive, kind, target)
    elif kind == "elf":
        said = f"{archive} is a single program or library, not an archive"
        raise BundleError("archive_broken", said, remedy="name the folder that it lies in")
    elif kind:
        raise BundleError("archive_broken", f"{archive} is a {kind} archive, which is not read here", remedy=UNPACK_IT)
    else:
        raise BundleError(
            "archive_broken",
            f"{archive} is neither a zip nor a tar",
            remedy="name a folder, a zip, a tar (plain, gz, bz2, xz), an APK or an AAB",
        )


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip.

    Raises:
        BundleError: its directory cannot be read (``archive_broken``).
        ConfigError: the file cannot.
    """
    try:
        _check_directory(path)
        archive = zipfile.ZipFile(path)
    except BROKEN as error:
        raise broken(path, error) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})", remedy="check the path") from error
    with archive:
        yield archive


def _check_directory(path: Path) -> None:
    """Refuse a zip whose directory alone would fill the memory."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _ZIP_TAIL_BYTES))
        tail = file.read()
    end, wide = tail.rfind(_ZIP_END), tail.rfind(_ZIP64_END)
    says = [struct.unpack_from("<I", tail, end + 12)[0]] if end >= 0 else []
    says += [struct.unpack_from("<Q", tail, wide + 40)[0]] if wide >= 0 else []
    directory = min(max(says, default=0), size)  # 0xFFFFFFFF where the wide one counts
    if directory > _MAX_DIRECTORY_BYTES:
        said = f"{path}: its list of entries has {directory:,} bytes, more than is ever unpacked"
        raise BundleError("archive_unsafe", said, remedy=UNPACK_IT)


def unpack_zip(path: Path, archive: zipfile.ZipFile, target: Path, place: Callable[[str], str | None]) -> None:
    """Unpack those entries of a zip that ``place`` gives a path below ``target``; all their sizes are added up first.

    Raises:
        BundleError, HostError: as :func:`unpack`.
    """
    writer = Unpacking(path, target)
    wanted = [(info, to) for info in archive.infolist() if (to := place(info.filename)) is not None]
    declared = 0
    for info, _ in wanted:
        declared += info.file_size
        writer.need(info.filename, declared)
    for info, to in wanted:
        name, mode = info.filename, info.external_attr >> 16
        kind = stat.S_IFMT(mode)
        if info.flag_bits & 0x1:
            raise BundleError("archive_broken", f"{path}: entry {shown(name)} is encrypted", remedy=UNPACK_IT)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            raise writer.unsafe(name, "is a device, a pipe or a socket")
        if name.endswith("/") or kind == stat.S_IFDIR:
            writer.claim(to, folder=True)
            continue
        entry = writer.claim(to)
        try:
            source = archive.open(info)
        except (*BROKEN, OSError) as error:
            raise broken(path, error, name) from error
        with source:
            if kind == stat.S_IFLNK:
                writer.link(name, entry, _link_in_zip(path, name, source))
            else:
                writer.write(name, entry, source, executable=bool(mode & 0o111))
    writer.make_links()


def _link_in_zip(path: Path, name: str, source: IO[bytes]) -> str:
    try:
        return source.read(4096).decode()
    except (*BROKEN, OSError) as error:
        raise broken(path, error, name) from error
