"""The timed prompt as text: for runners that take no token ids, a line of exactly as many tokens as the plan asks.

Only the engine's own tokenizer counts. It is reached through the Python package MNN once a model is loaded, so the
smallest one that comes with the product is loaded with the wanted model's tokenizer file, in a process of its own.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.core.errors import ConfigError, HostError
from harness.core.ids import content_id
from harness.core.reasons import Reason
from harness.core.resources import cache_dir, data_root
from harness.payload.hashes import sha256_of
from harness.payload.mnn_tokenizer import read_tokenizer
from harness.payload.models import ModelFolder
from harness.runners.base import PromptText
from harness.runners.farm_runner import PROMPT_TEXT
from harness.store.runfolder import write_atomically

_log = logging.getLogger(__name__)
_PROGRAM = "harness.runners._encode_prompt"
_TIMEOUT_S = 300.0
# Loaded in place of the model itself, which may be large.
_STAND_IN = "tiny-llama"
_STAND_IN_FILES = ("llm.mnn", "llm.mnn.weight", "llm_config.json")
_DEFAULT_TOKENIZER = "tokenizer.txt"


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    text: str
    token_ids: tuple[int, ...]


def prompt_text(model: ModelFolder, tokens: int) -> PromptText:
    """Return one line of which the model's tokenizer makes exactly ``tokens`` ids, those of its prefix included.

    Raises:
        ConfigError: no line of that length can be made (reason ``bad_plan``), or the tokenizer cannot be read.
        HostError: this computer cannot run the engine's tokenizer.
    """
    file = _tokenizer_of(model)
    try:
        stops = read_tokenizer(file.read_bytes()).stop_ids
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} is no tokenizer of MNN's: {error}", remedy="export the model again") from None
    key = {"tokenizer": sha256_of(file), "text": PROMPT_TEXT, "tokens": tokens, "engine": _engine_version()}
    kept_file = cache_dir("prompts") / f"{content_id(key)[:32]}.json"
    kept = _read(kept_file) or _make(model.name, file, tokens, kept_file)
    return PromptText(kept.text, kept.token_ids, stops)


def _tokenizer_of(model: ModelFolder) -> Path:
    """Return the tokenizer file that the engine reads."""
    root = model.folder.root
    try:
        config = json.loads((root / "config.json").read_text(encoding="utf-8"))
        name = config.get("tokenizer_file", _DEFAULT_TOKENIZER)
        return root / str(name)
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{root}/config.json cannot be read: {error}", remedy="restore the file") from None


def _engine_version() -> str:
    try:
        return metadata.version("MNN")
    except metadata.PackageNotFoundError:
        raise HostError("the Python package MNN is not installed here", remedy="pip install MNN") from None


def _read(file: Path) -> _Kept | None:
    try:
        return _Kept.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        _log.warning("%s is made anew: %s", file, str(error).splitlines()[0])
        return None


def _make(name: str, tokenizer: Path, tokens: int, kept_file: Path) -> _Kept:
    answer = _ask(tokenizer, tokens)
    if "nearest" in answer:
        near = " or ".join(map(str, answer["nearest"])) or "none"
        raise ConfigError(
            f"no text has exactly {tokens} tokens of {name}: the nearest are {near}",
            remedy="choose one of these as prompt_tokens, or a bundle with farm_runner",
            reason=Reason.BAD_PLAN,
        )
    kept = _Kept.model_validate(answer)
    try:
        write_atomically(kept_file, kept.model_dump_json().encode())
    except OSError as error:
        _log.warning("a prompt could not be kept in %s: %s", kept_file, error.strerror or error)
    return kept


def _ask(tokenizer: Path, tokens: int) -> dict[str, Any]:
    """Have the text cut by the engine's tokenizer."""
    stand_in = data_root() / "profiles" / "models" / _STAND_IN
    with tempfile.TemporaryDirectory(prefix="mnn-farm-prompt-") as scratch:
        folder = Path(scratch)
        for file in _STAND_IN_FILES:
            (folder / file).symlink_to(stand_in / file)
        link = f"wanted-{tokenizer.name}"
        (folder / link).symlink_to(tokenizer.resolve())
        config = {"llm_model": "llm.mnn", "llm_weight": "llm.mnn.weight", "tokenizer_file": link, "thread_num": 1}
        (folder / "config.json").write_text(json.dumps({**config, "tmp_path": scratch}), encoding="utf-8")
        argv = [sys.executable, "-m", _PROGRAM, "--model", scratch, "--tokens", str(tokens), "--text", PROMPT_TEXT]
        status, out, err = _run(argv, scratch)
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError:
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        last = err.strip().splitlines()[-1:] or ["no word"]
        raise HostError(f"the engine's tokenizer failed on {tokenizer} ({how}): {last[0][:300]}") from None
    if "error" in answer:
        raise HostError(f"the engine's tokenizer cannot be asked with {tokenizer}: {answer['error']}")
    return answer


def _run(argv: list[str], folder: str) -> tuple[int, str, str]:
    try:
        done = subprocess.run(
            argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise HostError(f"the engine's tokenizer did not answer within {_TIMEOUT_S:g} s") from None
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
