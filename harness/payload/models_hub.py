"""Models from Hugging Face: ``hf:ORG/NAME[@REVISION]``, an exported MNN folder, checked, pinned and kept by name."""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import ConfigError, HostError, ModelIncompleteError
from harness.core.resources import cache_dir
from harness.payload.folder import read_folder
from harness.payload.hub import HubFile, HubModel, download, list_model
from harness.payload.model_check import CONFIG, check_model
from harness.payload.model_pins import read_pin
from harness.payload.models_fetch import known_models
from harness.payload.models_place import check_name, keep, kept_models, place_of, scratch_of

PREFIX = "hf:"
_SPEC = re.compile(
    r"hf:(?P<repo>[A-Za-z0-9][\w.-]*/(?P<name>[A-Za-z0-9][\w.-]*))(?:@(?P<revision>[\w./-]+))?", re.ASCII
)
#: What a model folder of llmexport is made of, beside files that its configuration names. Repositories hold more: a
#: graph as text (``llm.mnn.json``, as long as the weights are many), pictures, what the model was exported from.
_WANTED = ("*.mnn", "*.mnn.weight", "*.mtok", "tokenizer.txt", "*embedding*.bin", "llm_config.json", "export_args.json")
_SAY_EVERY_S = 2.0


@dataclass(frozen=True)
class HubSpec:
    """What is asked for: repository, revision if one is named, and the name that the model is kept by."""

    repo: str
    revision: str | None
    name: str


def parse_spec(text: str, name: str | None = None) -> HubSpec:
    """Read ``hf:ORG/NAME[@REVISION]``; the model is kept by ``name``, else by its own in small letters.

    Raises:
        ConfigError: it is none, or there can be no model of that name.
    """
    found = _SPEC.fullmatch(text)
    if found is None:
        raise ConfigError(f"{text!r} names no model of the hub", remedy="write hf:ORG/NAME or hf:ORG/NAME@REVISION")
    kept = name if name is not None else found["name"].lower()
    check_name(kept)
    if kept in known_models():
        raise ConfigError(f"{kept} is the name of a model of mnn-farm's own", remedy="give another one with --name")
    return HubSpec(found["repo"], found["revision"], kept)


def fetch_from_hub(spec: HubSpec, *, again: bool = False, say: Callable[[str], None]) -> Path:
    """Return the folder of a model of the hub, after fetching, checking and pinning it if it is not here yet.

    A download that was interrupted goes on where it stopped. The folder appears whole or not at all.

    Args:
        spec: which one.
        again: fetch it even if it is here, and let the new one take the old one's place.
        say: is told what happens.

    Raises:
        ConfigError: there is no such model on the hub, it is none of MNN's, or the name is taken by another one.
        HostError: it could not be fetched.
    """
    if spec.name in kept_models() and not again and spec.revision is None:
        return _the_same(spec, None)
    with scratch_of(spec.name, "fetching", say) as scratch:
        model = list_model(spec.repo, spec.revision)
        if spec.name in kept_models() and not again:  # asked for before, or by the process that was waited for
            return _the_same(spec, model.commit)
        _refuse_others(model)
        part = place_of(spec.name).with_name(f".{spec.name}.part-{model.commit[:16]}")
        for left in cache_dir("models").glob(f".{spec.name}.part-*"):
            if left != part:
                shutil.rmtree(left, ignore_errors=True)
        say(f"fetching hf:{model.repo} at {model.commit}")
        _bring(model, part, say)
        check = check_model(part)
        if check.errors:
            shutil.rmtree(part, ignore_errors=True)
            first = check.errors[0]
            detail = first.detail.replace(f"{check.path}/", "").replace(str(check.path), "it")
            raise ModelIncompleteError(f"hf:{model.repo} is no whole MNN model: {detail}", remedy="take another model")
        return keep(read_folder(part), spec.name, scratch, f"{PREFIX}{model.repo}@{model.commit}", check.engine_version)


def _the_same(spec: HubSpec, commit: str | None) -> Path:
    """Return the model that is here by this name, if it is the one that is asked for."""
    here = place_of(spec.name)
    pin = read_pin(here)
    source = pin.source if pin is not None else "nobody knows where"
    if source.startswith(f"{PREFIX}{spec.repo}@") and (commit is None or source.endswith(f"@{commit}")):
        return here
    raise ConfigError(
        f"there is a model {spec.name} already, from {source}", remedy="give another name with --name, or --again"
    )


def _refuse_others(model: HubModel) -> None:
    """Refuse a repository that is no exported MNN model, before anything large is fetched."""
    names = {file.path for file in model.files}
    for wanted, there in ((CONFIG, CONFIG in names), ("*.mnn", bool(fnmatch.filter(names, "*.mnn")))):
        if not there:
            raise ConfigError(
                f"hf:{model.repo} is no MNN model: it has no {wanted}",
                remedy="name a repository with a folder that llmexport wrote (often called …-MNN)",
            )


def _bring(model: HubModel, part: Path, say: Callable[[str], None]) -> None:
    """Bring the files that the engine reads: first the configuration, which names some of them."""
    part.mkdir(exist_ok=True)
    by_path = {file.path: file for file in model.files}
    texts = [by_path[name] for name in (CONFIG, "llm_config.json") if name in by_path]
    for file in texts:
        download(model, file, part / file.path, lambda _: None)
    named = {text for file in texts for text in _texts(part / file.path)}
    wanted = [file for file in model.files if file.path in (CONFIG, *_chosen(by_path, named))]
    meter = _Meter(sum(file.size or 0 for file in wanted), say)
    meter.done = sum(_size(part / file.path) for file in wanted)
    _refuse_full_disk(part, meter.total - meter.done)
    if meter.done > sum(_size(part / file.path) for file in texts):
        say(f"going on after {meter.done / 1e6:.1f} of {meter.total / 1e6:.1f} MB")
    for file in wanted:
        meter.file = file.path
        download(model, file, part / file.path, meter.add)
    _remove_others(part, wanted)
    say(f"{len(wanted)} files of {meter.total / 1e6:.1f} MB are here and as the hub promises")


def _chosen(paths: dict[str, HubFile], named: set[str]) -> set[str]:
    """Return the files of a model folder, those that its configuration names, and the weights of such graphs."""
    top = {path for path in paths if "/" not in path}
    chosen = {path for pattern in _WANTED for path in fnmatch.filter(top, pattern)}
    chosen |= {path for path in paths if path in named or any(path.startswith(f"{name}/") for name in named if name)}
    return chosen | {f"{path}.weight" for path in chosen if f"{path}.weight" in paths}


def _texts(file: Path) -> Iterator[str]:
    """Yield every text in a JSON file; one that cannot be read names nothing, and is refused with the whole folder."""
    try:
        ahead: list[Any] = [json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError, RecursionError):
        return
    while ahead:
        value = ahead.pop()
        if isinstance(value, str):
            yield value.rstrip("/")
        elif isinstance(value, dict):
            ahead += value.values()
        elif isinstance(value, list):
            ahead += value


def _refuse_full_disk(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise HostError(
            f"{needed / 1e6:.1f} MB are to be fetched and {folder.parent} has {free / 1e6:.1f} MB free",
            remedy="make room, or move the cache with MNN_FARM_CACHE",
        )


def _remove_others(part: Path, wanted: list[HubFile]) -> None:
    """Remove what an interrupted download of the same commit by another version of mnn-farm may have left."""
    names = {file.path for file in wanted}
    for path in part.rglob("*"):
        if path.is_file() and path.relative_to(part).as_posix() not in names:
            path.unlink()


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


class _Meter:
    """Says every few seconds how much came, how fast, and how long the rest will take."""

    def __init__(self, total: int, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self.done = 0
        self.file = ""
        self._say = say
        self._clock = clock
        self._since = self._said = clock()
        self._received = 0

    def add(self, count: int) -> None:
        """Count what came."""
        self.done += count
        self._received += count
        now = self._clock()
        if now - self._said < _SAY_EVERY_S:
            return
        self._said = now
        rate = self._received / (now - self._since)
        left = f", {max(0, self.total - self.done) / rate:.0f} s left" if rate > 0 else ""
        self._say(f"{self.file}: {self.done / 1e6:.1f} of {self.total / 1e6:.1f} MB, {rate / 1e6:.1f} MB/s{left}")
