"""Payloads on their way to a host: what is sent of a model or a bundle, by which hash, and where it lies there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from harness.payload.bundle import Bundle
from harness.payload.folder import PayloadFile, PayloadFolder, read_folder
from harness.payload.models import ModelFolder

CHUNK_BYTES = 4 * 1024**2
# The folder of the payload's own files in a parcel; source that a bundle shares with others lies beside it.
MAIN = "files"


@dataclass(frozen=True)
class Parcel:
    """What is sent: files by their path in the parcel, with size, content hash and whether they are programs."""

    files: tuple[PayloadFile, ...]

    @property
    def hash(self) -> str:
        """The name under which every host keeps it."""
        return PayloadFolder(Path(), self.files).hash

    @property
    def size(self) -> int:
        """Bytes in all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Packed:
    """A parcel and where its parts lie on this computer."""

    parcel: Parcel
    roots: dict[str, Path]

    def chunks(self, path: str) -> Iterator[tuple[int, bytes]]:
        """Yield (offset, bytes) of a file, at least once.

        Raises:
            OSError: it cannot be read.
        """
        part, _, name = path.partition("/")
        offset = 0
        with (self.roots[part] / name).open("rb") as file:
            while (data := file.read(CHUNK_BYTES)) or not offset:
                yield offset, data
                offset += len(data)
                if not data:
                    return


def _packed(parts: dict[str, PayloadFolder]) -> Packed:
    files = [replace(file, path=f"{name}/{file.path}") for name, folder in parts.items() for file in folder.files]
    return Packed(Parcel(tuple(files)), {name: folder.root for name, folder in parts.items()})


def pack_model(model: ModelFolder) -> Packed:
    """Return what is sent of a model: what a phone gets; of a converted one also what its outputs are held to."""
    whole = model.folder if model.tensor is None else read_folder(model.tensor.folder)
    return _packed({MAIN: whole})


def pack_bundle(bundle: Bundle) -> Packed:
    """Return what is sent of a bundle: what is pushed, or the source of which the host builds it."""
    parts = {MAIN: bundle.folder}
    for name in bundle.manifest.shared:
        beside = bundle.folder.root.resolve().parent / name
        if beside.is_dir():
            parts[name] = read_folder(beside)
    return _packed(parts)


def model_at(model: ModelFolder, root: Path) -> ModelFolder:
    """Return a model as it lies in the parcel that was unpacked at ``root``."""
    tensor = None if model.tensor is None else replace(model.tensor, folder=root / MAIN)
    return replace(model, folder=replace(model.folder, root=root / MAIN), tensor=tensor)


def bundle_at(bundle: Bundle, root: Path) -> Bundle:
    """Return a bundle as it lies in the parcel that was unpacked at ``root``."""
    return replace(bundle, folder=replace(bundle.folder, root=root / MAIN))
