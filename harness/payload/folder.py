"""A folder to push, named by its content: the same bytes have the same name on every phone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import ConfigError
from harness.core.ids import content_id
from harness.payload.hashes import cached_sha256_of, sha256_of

_COPY_BYTES = 1024 * 1024
_ZEROS = bytes(_COPY_BYTES)


@dataclass(frozen=True)
class PayloadFile:
    """One file: path below the folder with ``/``, size in bytes, SHA-256 in hex, whether it is a program."""

    path: str
    size: int
    sha256: str
    executable: bool = False


@dataclass(frozen=True)
class PayloadFolder:
    """A local folder and what is in it."""

    root: Path
    files: tuple[PayloadFile, ...]

    @property
    def hash(self) -> str:
        """SHA-256 over paths, sizes, contents and program bits; 64 hex digits."""
        return content_id({file.path: [file.size, file.sha256, file.executable] for file in self.files})

    @property
    def size(self) -> int:
        """Bytes in all files."""
        return sum(file.size for file in self.files)


def read_folder(
    root: Path,
    *,
    only: Iterable[str] | None = None,
    executable: Callable[[str], bool] = lambda _: False,
    trust: bool = True,
) -> PayloadFolder:
    """Hash a folder (all of it, or the files in ``only``).

    With ``trust`` a large file is read only if it was changed since it was last hashed here; see
    :mod:`harness.payload.hashes`. Without it every byte is read, as for somebody who asks whether all is well.

    Raises:
        ConfigError: it is no folder, it is empty, or a file in it cannot be read or leads out of it.
    """
    if not root.is_dir():
        raise ConfigError(f"{root} is not a folder", remedy="check the path")
    base = root.resolve()
    digest_of = cached_sha256_of if trust else sha256_of
    paths = [root / name for name in only] if only is not None else sorted(p for p in root.rglob("*") if p.is_file())
    files = []
    for path in paths:
        if not path.resolve().is_relative_to(base):
            raise ConfigError(f"{path} leads out of {root}", remedy="copy the file into the folder")
        name = path.relative_to(root).as_posix()
        try:
            files.append(PayloadFile(name, path.stat().st_size, digest_of(path), executable(name)))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error.strerror})", remedy="check the file") from error
    if not files:
        raise ConfigError(f"{root} is empty", remedy="check the path")
    return PayloadFolder(root, tuple(sorted(files, key=lambda file: file.path)))


def copy_folder(folder: PayloadFolder, target: Path) -> None:
    """Copy a folder, file by file as :func:`copy_file` does."""
    for file in folder.files:
        copy = target / file.path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy_file(folder.root / file.path, copy)


def copy_file(file: Path, copy: Path) -> None:
    """Copy a file; runs of zeros become holes, so that a sparse file stays as small as it is."""
    with file.open("rb") as source, copy.open("wb") as sink:
        while chunk := source.read(_COPY_BYTES):
            if chunk == _ZEROS[: len(chunk)]:
                sink.seek(len(chunk), 1)
            else:
                sink.write(chunk)
        sink.truncate(source.tell())
