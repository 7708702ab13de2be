"""Where the entries of an archive may go: below one folder, each once, through no link, and not without end.

Names, sizes and links come from an archive that nobody trusts; whatever reads one asks here before it writes.
"""

from __future__ import annotations

import errno
import lzma
import os
import shutil
import struct
import tarfile
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from harness.core.errors import BundleError, HostError
from harness.core.reasons import Reason

MAX_ENTRIES = 20_000
MAX_BYTES = 8 * 1024**3
#: Stays free on this computer's disk whatever an archive wants.
KEEP_FREE_BYTES = 256 * 1024**2
CHUNK_BYTES = 1024 * 1024
UNPACK_IT = "unpack it yourself and name the folder"

_PACK_AGAIN = f"pack it again, or {UNPACK_IT}"
_FETCH_AGAIN = "download or pack it again"
#: What reading a zip or a tar that is not whole raises, besides :class:`OSError`.
BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
)


@dataclass
class Unpacking:
    """Writes the entries of an archive below ``target``; each is claimed first.

    Attributes:
        archive: what is unpacked, for messages.
        target: an empty folder that nobody else writes to.
        room_bytes: how much may be written in all.
        written_bytes: how much was.
    """

    archive: Path
    target: Path
    room_bytes: int = 0
    written_bytes: int = 0
    files: set[PurePosixPath] = field(default_factory=set)
    folders: set[PurePosixPath] = field(default_factory=set)
    links: list[tuple[PurePosixPath, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.room_bytes = min(MAX_BYTES, max(0, shutil.disk_usage(self.target).free - KEEP_FREE_BYTES))

    def unsafe(self, name: str, why: str, remedy: str = _PACK_AGAIN) -> BundleError:
        """Return the refusal of an entry."""
        return BundleError("archive_unsafe", f"{self.archive}: entry {shown(name)} {why}", remedy=remedy)

    def claim(self, name: str, *, folder: bool = False) -> PurePosixPath:
        """Return where below ``target`` an entry goes, if it may, and note that it is there."""
        if len(self.files) + len(self.folders) >= MAX_ENTRIES:
            raise self.unsafe(name, f"is one too many: more than {MAX_ENTRIES} are not unpacked", UNPACK_IT)
        path = self._inside(name)
        if not folder and not path.parts:
            raise self.unsafe(name, "has no name")
        above = list(path.parents)[:-1]
        if path in self.files or (not folder and path in self.folders):
            raise self.unsafe(name, "is there twice: the second would replace the first")
        if any(parent in self.files for parent in above):
            raise self.unsafe(name, "would be written below a file or through a link")
        self.folders.update(above)
        (self.folders if folder else self.files).add(path)
        return path

    def _inside(self, name: str) -> PurePosixPath:
        slashed = name.replace("\\", "/")  # as some packers for Windows write it
        parts = [part for part in slashed.split("/") if part not in ("", ".")]
        if slashed.startswith("/") or (parts and parts[0].endswith(":")):
            raise self.unsafe(name, "has an absolute path")
        if ".." in parts:
            raise self.unsafe(name, "leads out of the folder it is unpacked to")
        if not slashed.isprintable():
            raise self.unsafe(name, "has a name that cannot be printed")
        if any(len(part.encode()) > 255 for part in parts) or len(slashed.encode()) > 2000:
            raise self.unsafe(name, "has too long a name")
        return PurePosixPath(*parts)

    def need(self, name: str, size: int) -> None:
        """Refuse an entry that says it needs more than there is room for."""
        if size < 0 or self.written_bytes + size > self.room_bytes:
            has = f"{self.written_bytes + size:,} bytes in all, and {self.room_bytes:,} may be written"
            raise self.unsafe(name, f"is too big: that makes {has}", f"make room on the disk, or {UNPACK_IT}")

    def write(self, name: str, path: PurePosixPath, source: IO[bytes], *, executable: bool) -> None:
        """Copy an entry's content. It may turn out longer than it said."""
        try:
            with self.make_folders(path).open("xb") as sink:
                while chunk := self._read(name, source):
                    self.need(name, len(chunk))
                    self.written_bytes += len(chunk)
                    sink.write(chunk)
                os.fchmod(sink.fileno(), 0o755 if executable else 0o644)
        except OSError as error:
            raise self._disk(error) from error

    def make_folders(self, path: PurePosixPath) -> Path:
        """Make the folders above an entry, and return where it goes."""
        file = self.target / path
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._disk(error) from error
        return file

    def _read(self, name: str, source: IO[bytes]) -> bytes:
        try:
            return source.read(CHUNK_BYTES)
        except (*BROKEN, OSError) as error:
            raise broken(self.archive, error, name) from error

    def _disk(self, error: OSError) -> HostError:
        full = Reason.HOST_DISK_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
        return HostError(f"{self.archive} cannot be unpacked to {self.target} ({error.strerror})", reason=full)

    def link(self, name: str, path: PurePosixPath, to: str) -> None:
        """Note a symbolic link; it is made by :meth:`make_links`, when nothing can be written through it any more."""
        if not to or not to.isprintable() or PurePosixPath(to).is_absolute():
            raise self.unsafe(name, f"is a link to {shown(to)}, out of the archive")
        self.links.append((path, to))

    def make_links(self) -> None:
        """Make the links, then look where each of them really leads."""
        base = self.target.resolve()
        try:
            for path, to in self.links:
                self.make_folders(path).symlink_to(to)
        except OSError as error:
            raise self._disk(error) from error
        for path, to in self.links:
            try:
                leads_to = (self.target / path).resolve()
                there = leads_to.exists()
            except (OSError, RuntimeError):  # in a circle
                leads_to, there = base, False
            if not leads_to.is_relative_to(base):
                raise self.unsafe(str(path), f"is a link to {shown(to)}, out of the archive")
            if not there:
                raise BundleError(
                    "archive_broken",
                    f"{self.archive}: entry {shown(str(path))} is a link to {shown(to)}, which is not in the archive",
                    remedy="pack the file itself instead of the link",
                )


def shown(name: str) -> str:
    """Return an entry's name for people: quoted, whatever bytes it has, and not without end."""
    return ascii(name) if len(name) <= 120 else ascii(name[:120]) + "…"


def broken(archive: Path, error: Exception, name: str | None = None) -> BundleError:
    """Return the refusal of an archive that cannot be read to its end."""
    where = f"{archive}: entry {shown(name)}" if name is not None else str(archive)
    said = ascii(str(error))[1:-1][:200] or type(error).__name__
    return BundleError("archive_broken", f"{where} cannot be read ({said})", remedy=_FETCH_AGAIN)
