"""Lists and downloads files of a Hugging Face repository, whole, resumable, and compared with the hub's own hashes.

All requests go through ``huggingface_hub``, which knows the hub's address, mirrors (``HF_ENDPOINT``), proxies, tokens
(``HF_TOKEN`` or its login) and retries; it is imported when it is first needed. Its ``snapshot_download`` is not used:
it throws away half a file when it is interrupted (2.4), and compares no hashes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType

from harness.core.errors import ConfigError, HostError
from harness.payload.hub_errors import in_one_sentence

_CHUNK_BYTES = 4 * 1024 * 1024
#: How long the hub may think about a listing. Downloads wait as long as ``HF_HUB_DOWNLOAD_TIMEOUT`` says, 10 s a read.
_ASK_S = 30.0


@dataclass(frozen=True)
class HubFile:
    """A file as the hub lists it; ``None`` is what it does not tell.

    Attributes:
        path: in the repository.
        size: in bytes.
        sha256: of its content, for files in large-file storage.
        blob: Git's SHA-1 of it, for the others.
    """

    path: str
    size: int | None
    sha256: str | None
    blob: str | None


@dataclass(frozen=True)
class HubModel:
    """A repository at one commit."""

    repo: str
    commit: str
    files: tuple[HubFile, ...]


def list_model(repo: str, revision: str | None) -> HubModel:
    """Ask the hub which commit a revision is, and what files it has.

    Raises:
        ConfigError: there is no such repository or revision, or it may not be read.
        HostError: the hub cannot be reached, or answers something else.
    """
    from huggingface_hub import HfApi

    with in_one_sentence(f"hf:{repo}", revision):
        info = HfApi(endpoint=_endpoint()).model_info(repo, revision=revision, files_metadata=True, timeout=_ASK_S)
        files = tuple(_file(repo, sibling) for sibling in info.siblings or ())
        if not info.sha:
            raise ValueError("it names no commit")
        return HubModel(repo, str(info.sha), files)


def _file(repo: str, sibling: object) -> HubFile:
    path = str(getattr(sibling, "rfilename", ""))
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or not path.isprintable():
        raise ConfigError(f"hf:{repo} has a file {path!r} that leads out of its folder", remedy="take another model")
    lfs = getattr(sibling, "lfs", None)
    size, blob = getattr(sibling, "size", None), getattr(sibling, "blob_id", None)
    if lfs is not None:
        return HubFile(path, int(lfs.size), str(lfs.sha256), None)
    return HubFile(path, int(size) if size is not None else None, None, str(blob) if blob else None)


def download(model: HubModel, file: HubFile, target: Path, received: Callable[[int], None]) -> None:
    """Bring one file to ``target``; what is there of it already is not asked for again.

    Args:
        model: the repository.
        file: which one.
        target: where it goes; what it holds before is the beginning of the file.
        received: is told how many bytes came.

    Raises:
        ConfigError: the file may not be read.
        HostError: it did not come whole; what came stays for the next time. A file with other content than the hub
            promises is removed.
        OSError: the disk refuses.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # it is, by a table of names

    class Bar(_Bar):
        told = staticmethod(received)

    what = f"hf:{model.repo}/{file.path}"
    target.parent.mkdir(parents=True, exist_ok=True)
    here = target.stat().st_size if target.exists() else 0
    if file.size is None or here > file.size:  # nothing tells whether what is there is the beginning
        target.unlink(missing_ok=True)
        here = 0
    if here != file.size or not target.exists():
        url = hf_hub_url(model.repo, file.path, revision=model.commit, endpoint=_endpoint())
        with in_one_sentence(what), target.open("ab") as sink:
            headers = build_hf_headers()
            http_get(url, sink, resume_size=here, headers=headers, expected_size=file.size, tqdm_class=Bar)
    if not _as_promised(file, target):
        target.unlink()
        raise HostError(
            f"{what} came with other content than the hub promises",
            remedy="run the same again; if it stays, something between here and the hub changes files",
        )


def _as_promised(file: HubFile, target: Path) -> bool:
    """Compare a file with what the hub tells of it."""
    size = target.stat().st_size
    if file.size is not None and size != file.size:
        return False
    if file.sha256 is None and file.blob is None:
        return True
    # Git's own hash of a file begins with its kind and size.
    digest = hashlib.sha256() if file.sha256 is not None else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with target.open("rb") as opened:
        while chunk := opened.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest() == (file.sha256 or file.blob)


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or None


class _Bar:
    """Stands where ``huggingface_hub`` wants a progress bar, shows nothing and passes on what it is told."""

    told: Callable[[int], None]

    def __init__(self, **_: object) -> None:
        pass

    def __enter__(self) -> _Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def update(self, count: float | None = 1) -> None:
        """Pass on how many bytes came."""
        self.told(int(count or 0))

    def close(self) -> None:
        """End; there is nothing to end."""
