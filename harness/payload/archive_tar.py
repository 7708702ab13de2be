"""Unpacks a tar, plain or compressed. :mod:`tarfile` reads it, but neither its names nor its lengths are believed."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any

from harness.core.errors import BundleError, ConfigError
from harness.payload.archive_entries import BROKEN, CHUNK_BYTES, UNPACK_IT, Unpacking, broken, shown

_PADDING_CHUNKS = 16


class _Forward:
    """A decompressed tar that is only read onwards, in pieces.

    :mod:`tarfile` believes the lengths that a header gives: a negative one makes it go back and read for ever, a huge
    one makes it read a name of gigabytes. Neither gets past here.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._at = 0
        self._last = b""

    @property
    def ended(self) -> bool:
        """Whether what was read last is the block of zeros that every tar ends with."""
        return len(self._last) == tarfile.BLOCKSIZE and not any(self._last)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= CHUNK_BYTES:
            raise ValueError(f"a header says that {size} bytes belong to it")
        self._last = self._file.read(size)
        self._at += len(self._last)
        return self._last

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence != 0 or offset < self._at:
            raise ValueError("a header leads backwards")
        while self._at < offset and self.read(min(offset - self._at, CHUNK_BYTES)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at


def unpack_tar(path: Path, compression: str, target: Path) -> None:
    """Unpack a tar into ``target``, an empty folder.

    Args:
        path: the archive.
        compression: one of :data:`COMPRESSIONS`; anything else is a plain tar.
        target: the folder.

    Raises:
        BundleError: it is refused.
        ConfigError: the file cannot be read at all.
        HostError: ``target`` cannot be written.
    """
    unpacking = Unpacking(path, target)
    try:
        file = COMPRESSIONS.get(compression, _plain)(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror})", remedy="check the path") from error
    with file:
        forward = _Forward(file)
        archive = _open(path, forward)
        while (member := _next(path, archive)) is not None:
            _unpack_member(unpacking, archive, member)
        if not forward.ended:  # tarfile takes a header that is cut off or broken for the end
            raise broken(path, EOFError("it is cut off, or broken behind its last whole entry"))
        _read_out(path, forward)
    unpacking.make_links()


def _read_out(path: Path, forward: _Forward) -> None:
    """Read the padding behind the end: the checksum of what was compressed comes after it."""
    for _ in range(_PADDING_CHUNKS):
        try:
            if not forward.read(CHUNK_BYTES):
                break
        except (*BROKEN, OSError) as error:
            raise broken(path, error) from error


def _open(path: Path, file: Any) -> tarfile.TarFile:
    try:
        return tarfile.TarFile(fileobj=file, mode="r")
    except (*BROKEN, OSError) as error:
        raise broken(path, error) from error


def _next(path: Path, archive: tarfile.TarFile) -> tarfile.TarInfo | None:
    try:
        return archive.next()
    except (*BROKEN, OSError) as error:
        raise broken(path, error) from error


def _unpack_member(writer: Unpacking, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    name, executable = member.name, bool(member.mode & 0o111)
    if member.isdir():
        writer.claim(name, folder=True)
    elif member.issym():
        writer.link(name, writer.claim(name), member.linkname)
    elif member.islnk():
        entry, original = writer.claim(name), PurePosixPath(*PurePosixPath(member.linkname).parts)
        if original not in writer.files or not (writer.target / original).is_file():
            raise writer.unsafe(name, f"is a link to {shown(member.linkname)}, which is no file before it")
        with (writer.target / original).open("rb") as source:
            writer.write(name, entry, source, executable=executable)
    elif member.isreg():
        writer.need(name, member.size)
        entry = writer.claim(name)
        with _content(writer, archive, member) as source:
            writer.write(name, entry, source, executable=executable)
        if (writer.target / entry).stat().st_size != member.size:
            raise broken(writer.archive, EOFError("it ends too early"), name)
    else:
        raise writer.unsafe(name, "is a device, a pipe or something unknown")


def _content(writer: Unpacking, archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    try:
        source = archive.extractfile(member)
    except (*BROKEN, OSError) as error:
        raise broken(writer.archive, error, member.name) from error
    if source is None:
        raise writer.unsafe(member.name, "has no content of its own")
    return source


def _plain(path: Path) -> IO[bytes]:
    return path.open("rb")


def _zstd(path: Path) -> IO[bytes]:
    try:
        module: Any = importlib.import_module("compression.zstd")  # since Python 3.14
    except ImportError:
        raise BundleError(
            "archive_broken", f"{path} is compressed with zstd, which this Python cannot read", remedy=UNPACK_IT
        ) from None
    opened: IO[bytes] = module.open(path, "rb")
    return opened


#: Ways to compress a tar, and how to read each; ``open`` of these modules takes the path first, like the builtin.
COMPRESSIONS: dict[str, Callable[[Path], Any]] = {
    "gzip": gzip.GzipFile,
    "bzip2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zstd": _zstd,
}
