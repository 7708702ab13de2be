#!/usr/bin/env python3
"""farm_runner, the twin in Python: times generations of an MNN language model token by token, or runs of a model.

It prints one JSON object a line on stdout: ``hello``, ``load``, ``generation`` (one per warm-up, timed generation and
answer), ``error``, ``end``; of an ordinary model (``--tensor``) ``inference`` and ``output`` in place of generations.
Whatever the engine prints goes to stderr. Exit code 0 when all was done, 1 after an ``error`` event, 2 for a wrong
command line (one sentence on stderr, nothing on stdout). Times are milliseconds of the monotonic clock, sizes bytes.

One file, Python 3.8 and newer, the standard library and the package ``MNN`` (which brings numpy)::

    farm_runner.py --model DIR --backend cpu --threads 4 --prompt-tokens 64 --generate-tokens 32 --repeats 5 \\
        --ask "What is the capital of France?" --work-dir FRESH_FOLDER

    farm_runner.py --tensor MODEL.mnn --inputs DIR --outputs DIR --backend cpu --threads 4 --repeats 20

How it steps: ``generate_init()``, then ``forward(ids)`` and an argmax over the last row of logits, token after token.
The engine's own loop cannot be watched from Python: it prints the text itself and moves its counters only inside.
Stepping does not move those counters, so they are ``null`` in each generation; instead the engine's own loop runs once
more on the timed prompt after all timed generations, and ``end.engine_loop`` says what it counted.

``begun_ns`` is when something began, by CLOCK_MONOTONIC, so that every token can be joined with what was sampled then:
a token's time is ``begun_ns`` + ``ttft_ms`` + its part of ``token_ms``.

How it runs an ordinary model: as a session, which tells which backend it took, and as a module only where a session
cannot do it. A latency is from inputs handed to the engine to outputs in this process's memory.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import platform
import re
import select
import signal
import statistics
import struct
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

VERSION = "1.0"
ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a", "arm64": "arm64-v8a", "armv7l": "armeabi-v7a", "i686": "x86"}
ABIS_32 = {"x86_64": "x86", "aarch64": "armeabi-v7a", "arm64": "armeabi-v7a", "armv8l": "armeabi-v7a"}
#: MNN's numbers for backends; 13 is the CPU backend with its half-precision or int8 extension.
BACKEND_CODES = {0: "cpu", 13: "cpu", 1: "metal", 2: "cuda", 3: "opencl", 5: "nnapi", 6: "opengl", 7: "vulkan"}
SESSION_INFO_BACKENDS = 2
#: How many tokens ``--margins`` names behind the chosen one, and how many of the first token's logits are told.
RIVALS = 6
FIRST_LOGITS = 10
#: What MNN prints when it silently takes another backend (source/core/Schedule.cpp and the OpenCL runtime).
FALLBACK = re.compile(
    r"Can't Find type=\d+ backend|Don't support \d+|init error, fallback|Parsing OpenCL symbols error"
    r"|Can't create Runtime|Runtime not valid"
)
COMPLAINT = re.compile(r"error|fail|invalid|not found|can't|not enough|wrong", re.IGNORECASE)
#: Set by options of their own, or breaks the stepping: not to be given by ``--engine``.
OWN_KEYS = {
    "backend_type": "use --backend", "thread_num": "use --threads", "precision": "use --precision",
    "memory": "use --memory", "tmp_path": "use --work-dir", "sampler_type": "the runner is always greedy",
    "speculative_type": "the runner steps token by token", "chunk_limits": "the runner needs unpadded logits",
    "reuse_kv": "each generation starts with an empty context", "llm_model": "use --model", "llm_weight": "use --model",
    "base_dir": "use --model",
}  # fmt: skip
TEXT = (
    "On the first day of the long walk they followed the river to the east, past quiet mills and gardens full of late "
    "apples. Somebody had painted small white arrows on the stones, and nobody could say who had done it. In the "
    "evening they counted the bridges they had crossed, wrote the number into a green book, and argued about whether "
    "the narrow plank behind the school should be called a bridge at all. "
)
SYNC = b"\x01farm_runner sync\x01"
LFS_POINTER = b"version https://git-lfs"


class StageError(Exception):
    """Something went wrong while loading or generating; ``generation`` holds what had come out by then."""

    def __init__(self, stage: str, message: str, generation: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.stage = stage
        self.generation = generation


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"farm_runner: {message} (--help lists the options)\n")
        raise SystemExit(2)


def parse_options(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="farm_runner", description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", type=Path, help="MNN model folder, or its config.json")
    what.add_argument("--tensor", type=Path, metavar="MODEL.mnn", help="a model that is no language model")
    parser.add_argument("--inputs", type=Path, metavar="DIR", help="of --tensor: index.json, and samples as raw files")
    parser.add_argument("--outputs", type=Path, metavar="DIR", help="of --tensor: where the outputs go, as raw files")
    parser.add_argument("--backend", choices=("cpu", "opencl", "vulkan"), default="cpu")
    parser.add_argument("--threads", type=at_least(1), default=4, help="threads; for a GPU its mode mask, passed on")
    parser.add_argument("--precision", choices=("low", "normal", "high"), default="low")
    parser.add_argument("--memory", choices=("low", "normal", "high"), default="low")
    parser.add_argument("--engine", action="append", default=[], metavar="KEY=JSON", type=engine_key)
    parser.add_argument("--prompt-tokens", type=at_least(1), default=64)
    parser.add_argument("--generate-tokens", type=at_least(1), default=32)
    parser.add_argument("--context-tokens", type=at_least(0), default=0, help="history before each timed prompt")
    parser.add_argument("--warmups", type=at_least(0), default=1)
    parser.add_argument("--repeats", type=at_least(0), default=5)
    parser.add_argument("--cv-limit", type=above_zero, help="repeat while decode spreads more (deviation / mean) ...")
    parser.add_argument("--max-repeats", type=at_least(0), help="... up to so many timed generations")
    parser.add_argument("--duration-s", type=above_zero, help="timed generations for so long, whatever --repeats says")
    parser.add_argument("--load-rounds", type=at_least(1), default=1, help="load so often; the last one is used")
    parser.add_argument("--prompt-text", default=TEXT, help="what the timed prompt is cut from, repeated as needed")
    parser.add_argument("--ask", action="append", default=[], type=question, metavar="TEXT", help=question.__doc__)
    parser.add_argument("--ask-file", type=question_file, default=[], help="a file with one such question a line")
    parser.add_argument("--ask-tokens", type=at_least(1), default=64, help="longest answer to a plain --ask TEXT")
    parser.add_argument(
        "--require-backend", action="store_true", help="time nothing when the engine took another backend"
    )
    parser.add_argument(
        "--margins",
        action="store_true",
        help="tell of every token which ones came nearest and how far behind; costs time, so the engine's own loop is "
        "left out",
    )
    parser.add_argument("--work-dir", type=Path, help="fresh folder for the engine's caches (default: the current one)")
    options = parser.parse_args(argv)
    if (options.tensor is None) != (options.inputs is None) or (options.tensor is None) != (options.outputs is None):
        parser.error("--tensor, --inputs and --outputs belong together")
    options.ask = [*options.ask, *options.ask_file]
    return options


def at_least(least: int) -> Any:
    def number(text: str) -> int:
        with contextlib.suppress(ValueError):
            if int(text) >= least:
                return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")

    return number


def above_zero(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


def question_file(path: str) -> list[tuple[str, int | None]]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path} cannot be read: {error}") from None
    return [question(line) for line in lines if line.strip()]


def question(text: str) -> tuple[str, int | None]:
    """a question answered after the timed generations: text, or {"text": ..., "tokens": longest answer}"""
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict) and isinstance(value.get("text"), str):
            tokens = value.get("tokens")
            if tokens is None or (type(tokens) is int and tokens > 0):
                return value["text"], tokens
            raise argparse.ArgumentTypeError(f"tokens in {text!r} is not a whole number of at least 1")
    return text, None


def engine_key(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=JSON")
    if key in OWN_KEYS:
        raise argparse.ArgumentTypeError(f"{key} cannot be set here: {OWN_KEYS[key]}")
    try:
        return key, json.loads(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"the value of {key} is not JSON: {value!r}") from None


class Events:
    """Writes events to the stdout that the process was started with."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.stage = "config"

    def emit(self, event: str, **fields: Any) -> None:
        write_all(self.fd, (json.dumps({"event": event, **fields}, allow_nan=False) + "\n").encode())


class EngineOutput:
    """Sends all that the engine prints to stderr, and reads along.

    A child process copies, not a thread: the engine prints while it holds the interpreter, so that a thread could
    not empty the pipe and a talkative load would block for ever; and what was printed before a crash still arrives.
    """

    def __init__(self, events_fd: int) -> None:
        self._stderr = os.dup(2)
        from_engine, to_child = os.pipe()
        self._answers, to_parent = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                for fd in (events_fd, to_child, self._answers, 1):
                    os.close(fd)
                copy_along(from_engine, to_parent, self._stderr)
            finally:
                os._exit(0)
        for fd in (1, 2):
            os.dup2(to_child, fd)
        for fd in (from_engine, to_child, to_parent):
            os.close(fd)
        self._libc = ctypes.CDLL(None)
        # Line by line, or the last words before a crash stay in the C library's buffer.
        self._libc.setvbuf(ctypes.c_void_p.in_dll(self._libc, "stdout"), None, 1, 0)

    def heard(self) -> dict[str, Any]:
        """Return what was noticed until now: ``fallback`` (a line or ``""``) and the last ``complaints``."""
        self._libc.fflush(None)
        write_all(2, SYNC + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            ready, _, _ = select.select([self._answers], [], [], 10)
            chunk = os.read(self._answers, 65536) if ready else b""
            if not chunk:
                return {"fallback": "", "complaints": []}
            answer += chunk
        return json.loads(answer)

    def close(self) -> None:
        """Give fd 1 and 2 back to stderr and wait until the last line is copied."""
        self._libc.fflush(None)
        for fd in (1, 2):
            os.dup2(self._stderr, fd)
        os.waitpid(self._child, 0)


def copy_along(source: int, answers: int, sink: int) -> None:
    """Copy lines from ``source`` to ``sink`` until it ends; answer each sync mark with what was noticed."""
    pending, fallback, complaints = b"", "", []
    while True:
        chunk = os.read(source, 65536)
        *lines, pending = (pending + chunk).split(b"\n")
        if pending and (not chunk or len(pending) > 65536):
            lines, pending = [*lines, pending], b""
        for line in lines:
            text, asked, _ = line.partition(SYNC)
            if text or not asked:
                with contextlib.suppress(OSError):  # nobody reads stderr any more: go on, or the engine blocks
                    write_all(sink, text + b"\n")
                words = text.decode("utf-8", "replace").strip()
                if FALLBACK.search(words):
                    fallback = fallback or words
                if COMPLAINT.search(words):
                    complaints = [*complaints[-3:], words[:200]]
            if asked:
                write_all(answers, json.dumps({"fallback": fallback, "complaints": complaints}).encode() + b"\n")
        if not chunk:
            return


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


# --- the model's files, looked at before the engine is: it takes half a weight file and still shows a speed ---


def check_model(config_path: Path) -> dict[str, Path]:
    """Return the files that the model names.

    Raises:
        StageError: one is missing, empty, a Git LFS pointer, not what it should be, or too short.
    """
    config = read_object(config_path, "config")
    model_config = config_path.parent / config.get("llm_config", "llm_config.json")
    config = {**config, **read_object(model_config, "load")}
    files = {
        "llm_model": config_path.parent / config.get("llm_model", "llm.mnn"),
        "llm_weight": config_path.parent / config.get("llm_weight", "llm.mnn.weight"),
        "tokenizer_file": config_path.parent / config.get("tokenizer_file", "tokenizer.txt"),
    }
    if "tie_embeddings" not in config:
        files["embedding_file"] = config_path.parent / config.get("embedding_file", "embeddings_bf16.bin")
    for key, path in files.items():
        check_file(path, key, "load")
    try:
        wanted = weight_bytes(files["llm_model"].read_bytes())
    except (struct.error, IndexError, ValueError):
        raise StageError("load", f"{files['llm_model']} (llm_model) is not an MNN graph") from None
    size = files["llm_weight"].stat().st_size
    if size < wanted:
        raise StageError(
            "load",
            f"{files['llm_weight']} (llm_weight) is cut off: it has {size} bytes and the graph reads {wanted}",
        )
    return files


def check_file(path: Path, what: str, stage: str) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(len(LFS_POINTER))
    except OSError as error:
        raise StageError(stage, f"{path} ({what}) cannot be read: {error.strerror}") from None
    if not start:
        raise StageError(stage, f"{path} ({what}) is empty")
    if start == LFS_POINTER:
        raise StageError(stage, f"{path} ({what}) is a Git LFS pointer, not the file itself")


def read_object(path: Path, stage: str) -> dict[str, Any]:
    check_file(path, "configuration", stage)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StageError(stage, f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise StageError(stage, f"{path} is not a JSON object")
    return value


class Table:
    """A table of a flatbuffer, as far as is needed to find the weights' places (MNN's schema/default/MNN.fbs)."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.vtable = at - self.number("<i", at)

    def number(self, form: str, at: int) -> int:
        if at < 0:
            raise ValueError("offset before the start")
        return int(struct.unpack_from(form, self.data, at)[0])

    def slot(self, index: int) -> int:
        """Return where field ``index`` lies, 0 when it is not there."""
        place = 4 + 2 * index
        offset = self.number("<H", self.vtable + place) if place < self.number("<H", self.vtable) else 0
        return self.at + offset if offset else 0

    def child(self, index: int) -> Table | None:
        at = self.slot(index)
        return Table(self.data, at + self.number("<I", at)) if at else None

    def items(self, index: int, width: int) -> Iterator[int]:
        """Yield where each element of a vector lies."""
        at = self.slot(index)
        if at:
            start = at + self.number("<I", at)
            count = self.number("<I", start)
            if count * width > len(self.data):
                raise ValueError("vector longer than the file")
            for n in range(count):
                yield start + 4 + n * width


#: Position of ``external: [offset, size, size, ...]`` in the operator tables that may keep data in the weight file,
#: by number in the union OpParameter: Blob, Convolution2D, Scale, Convolution3D, LayerNorm, GroupNorm.
EXTERNAL_SLOT = {7: 9, 9: 6, 58: 3, 80: 3, 88: 5, 95: 6}
NET_OPS, NET_SUBGRAPHS, SUBGRAPH_NODES, OP_MAIN_TYPE, OP_MAIN = 3, 10, 4, 1, 2


def weight_bytes(graph: bytes) -> int:
    """Return how long the weight file has to be: the end of the last piece that the graph reads from it.

    Raises:
        struct.error, ValueError: ``graph`` is not an MNN graph.
    """
    net = Table(graph, struct.unpack_from("<I", graph)[0])
    places = list(net.items(NET_OPS, 4))
    if not places:
        raise ValueError("no operators")
    for subgraph in net.items(NET_SUBGRAPHS, 4):
        places += Table(graph, subgraph + net.number("<I", subgraph)).items(SUBGRAPH_NODES, 4)
    end = 0
    for place in places:
        op = Table(graph, place + net.number("<I", place))
        kind = op.slot(OP_MAIN_TYPE)
        main = op.child(OP_MAIN)
        slot = EXTERNAL_SLOT.get(op.number("<B", kind)) if kind else None
        if slot is not None and main is not None:
            end = max(end, sum(main.number("<q", at) for at in main.items(slot, 8)))
    return end


def stop_tokens(tokenizer: Path) -> list[int]:
    """Return the ids that end an answer. All of MNN's tokenizer files begin with the same three lines."""
    try:
        with tokenizer.open("rb") as file:
            magic, counts, ids = (file.readline().split() for _ in range(3))
        specials, stops, _prefix = (int(n) for n in counts)
        if magic[0] != b"430":
            raise ValueError("magic number")
        # some exporters write None for an end that a model does not have
        return [int(n) for n in ids[specials : specials + stops] if n != b"None"]
    except (ValueError, IndexError):
        raise StageError("load", f"{tokenizer} (tokenizer_file) is not an MNN tokenizer") from None


# --- generating ---


class Model:
    """The loaded model, stepped token by token."""

    def __init__(self, engine: Any, stops: Sequence[int], output: EngineOutput, margins: bool = False) -> None:
        self.engine = engine
        self.stops = stops
        self.output = output
        self.margins = margins

    def prompt(self, text: str, length: int) -> list[int]:
        """Return exactly ``length`` token ids of ``text``, with the tokenizer's own prefix in front."""
        prefix, all_ids = self.engine.tokenizer_encode(""), self.engine.tokenizer_encode(text)
        body = all_ids[len(prefix) :]
        if not body:
            raise StageError("config", f"the tokenizer makes no tokens of the prompt text {text[:40]!r}")
        return (prefix + body * (length // len(body) + 1))[:length]

    def answer(self, question: str, limit: int) -> dict[str, Any]:
        started = time.perf_counter()
        ids = self.engine.tokenizer_encode(self.engine.apply_chat_template(question) or question)
        tokenize_ms = (time.perf_counter() - started) * 1e3
        self.start_over()
        made = self.generate(ids, limit, started, ban_stops=False)
        return {**made, "tokenize_ms": tokenize_ms, "question": question}

    def timed(self, ids: list[int], limit: int, history: list[int]) -> dict[str, Any]:
        """Generate exactly ``limit`` tokens after ``ids``, with ``history`` computed before and not timed."""
        before = time.perf_counter()
        self.start_over()
        if history:
            self.engine.forward(history)
            if self.engine.get_current_history() != len(history):
                raise StageError("prefill", with_complaint("the engine did not compute the history", self.output))
        started = time.perf_counter()
        made = self.generate(ids, limit, started, ban_stops=True, held=len(history))
        return {**made, "context_tokens": len(history), "context_ms": (started - before) * 1e3 if history else None}

    def start_over(self) -> None:
        """Empty the context."""
        self.engine.reset()
        self.engine.generate_init()

    def generate(self, ids: list[int], limit: int, started: float, ban_stops: bool, held: int = 0) -> dict[str, Any]:
        """Generate up to ``limit`` tokens. ``started`` is when the prompt was submitted, after ``held`` tokens.

        Raises:
            StageError: the engine failed or its logits are no numbers.
        """
        token_ids: list[int] = []
        times: list[float] = []
        margins: list[list[list[float]]] = []
        first: Any = None
        sample_s = prefill_s = 0.0
        finish, fed, failure = "length", ids, ""
        while len(token_ids) < limit:
            before = time.perf_counter()
            held = self.engine.get_current_history() if token_ids else held
            logits = self.engine.forward(fed)
            computed = time.perf_counter()
            # A failed forward hands out a variable without content, and touching that one crashes.
            failure = "" if self.engine.get_current_history() == held + len(fed) else "the engine computed nothing"
            if not failure:
                values = logits.read()
                token, failure = self.choose(values, len(fed), ban_stops)
            if failure:
                finish = "error"
                break
            now = time.perf_counter()
            sample_s += now - computed
            if self.margins:
                margins.append(self.rivals(values, token, ban_stops))
            if not token_ids:
                prefill_s = computed - before
                first = values  # looked at once nothing is timed any more
            token_ids.append(token)
            times.append(now)
            fed = [token]
            if token in self.stops:
                finish = "eos"
                break
        generation = {
            "begun_ns": round(started * 1e9),
            "prompt_tokens": len(ids),
            "generated_tokens": len(token_ids),
            "tokenize_ms": None,
            "prefill_ms": prefill_s * 1e3 if token_ids else None,
            "ttft_ms": (times[0] - started) * 1e3 if times else None,
            "token_ms": [(times[n] - times[n - 1]) * 1e3 for n in range(1, len(times))],
            "sample_ms": sample_s * 1e3,
            "finish": finish,
            "token_ids": token_ids,
            "text": self.text(token_ids),
            "first_logits": [] if first is None else largest(first),
            "rss_bytes": rss_bytes(),
            **({"margins": margins, "pieces": self.pieces(token_ids, margins)} if self.margins else {}),
            "engine_prefill_ms": None,
            "engine_decode_ms": None,
            "engine_gen_tokens": None,
            "engine_counters_null": "stepping does not move the engine's counters; see end.engine_loop",
        }
        if failure:
            stage = "decode" if token_ids else "prefill"
            raise StageError(stage, with_complaint(failure, self.output), generation if token_ids else None)
        return generation

    def choose(self, values: Any, fed: int, ban_stops: bool) -> tuple[int, str]:
        """Return the most likely token of the last position, and what is wrong with the logits if anything is."""
        rows = values.reshape(-1, values.shape[-1])
        if len(rows) not in (1, fed):
            return -1, f"the engine returned {len(rows)} rows of logits for {fed} tokens"
        row = rows[-1]
        best = int(row.argmax())
        if ban_stops and best in self.stops:
            row = row.copy()
            row[list(self.stops)] = float("-inf")
            best = int(row.argmax())
        top = float(row[best])
        if top != top or top in (float("inf"), float("-inf")):
            return -1, "the logits are not finite numbers"
        if top == 0.0 and not row.any():
            return -1, "the logits are all zero"
        return best, ""

    def rivals(self, values: Any, token: int, ban_stops: bool) -> list[list[float]]:
        """Return the tokens nearest behind the chosen one, and how far behind each one's logit is."""
        row = values.reshape(-1, values.shape[-1])[-1]
        barred = {token, *self.stops} if ban_stops else {token}
        nearest = row.argpartition(-min(len(row), RIVALS + len(barred)))[-RIVALS - len(barred) :]
        gaps = sorted((float(row[token] - row[n]), int(n)) for n in nearest if int(n) not in barred)
        return [[n, round(gap, 4)] for gap, n in gaps[:RIVALS]]

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text of all tokens together: one character may be spread over several of them."""
        return b"".join(map(self.piece, token_ids)).decode("utf-8", "replace")

    def piece(self, token: int) -> bytes:
        """Return what a token adds to the text."""
        if token in self.stops:
            return b""
        try:
            return bytes(self.engine.tokenizer_decode(token).encode("utf-8"))
        except UnicodeDecodeError as error:
            return error.object

    def pieces(self, token_ids: Sequence[int], margins: Sequence[Sequence[Sequence[float]]]) -> dict[int, str]:
        """Return the bytes of each token that was chosen or came near, in hexadecimal."""
        near = (int(rival) for rivals in margins for rival, _ in rivals)
        return {token: self.piece(token).hex() for token in dict.fromkeys((*token_ids, *near))}

    def engine_loop(self, ids: list[int], limit: int) -> dict[str, Any]:
        """Let the engine generate by itself and return its own counters, to be held against the stepped times."""
        self.engine.reset()
        self.engine.generate_init()
        made = self.engine.generate(ids, limit)
        context = self.engine.get_context()
        return {
            "prompt_tokens": len(ids),
            "generated_tokens": context["gen_seq_len"],
            "prefill_ms": context["prefill_us"] / 1e3,
            "decode_ms": context["decode_us"] / 1e3,
            "sample_ms": context["sample_us"] / 1e3,
            "token_ids": made,
        }


def largest(values: Any) -> list[list[float]]:
    """Return the largest logits of the last row, each as token id and logit; of equal ones the smaller id first."""
    row = values.reshape(-1, values.shape[-1])[-1]
    return [[int(n), float(row[n])] for n in (-row).argsort(kind="stable")[:FIRST_LOGITS]]


def with_complaint(message: str, output: EngineOutput) -> str:
    complaints = output.heard()["complaints"]
    return f"{message}; the engine's last words: {' | '.join(complaints)}" if complaints else message


def load(mnn: Any, options: argparse.Namespace, work_dir: Path, output: EngineOutput) -> tuple[Model, dict[str, Any]]:
    """Load the model and return it with the fields of the ``load`` event.

    Raises:
        StageError: a file is not right, or the engine does not take the model.
    """
    config_path = options.model / "config.json" if options.model.is_dir() else options.model
    files = check_model(config_path)
    stops = stop_tokens(files["tokenizer_file"])
    rss_before = rss_bytes()
    keys = {
        "backend_type": options.backend, "thread_num": options.threads, "precision": options.precision,
        "memory": options.memory, "sampler_type": "greedy", "async": False, "reuse_kv": False, "speculative_type": "",
        "tmp_path": str(work_dir), "prefix_cache_path": str(work_dir / "prefixcache"), "banned_tokens": stops,
        **dict(options.engine),
    }  # fmt: skip
    cache_before = cache_bytes(work_dir)
    started = time.perf_counter()
    made = mnn.llm.create(str(config_path))
    engine = getattr(made, "_c_obj", made)  # some builds wrap it in a class that hides what load() says
    engine.set_config(json.dumps(keys))
    loaded = engine.load()
    load_ms = (time.perf_counter() - started) * 1e3
    if not loaded:
        raise StageError("load", with_complaint(f"the engine did not load {config_path}", output))
    used = json.loads(engine.dump_config())
    used.pop("jinja", None)
    fields = {
        "begun_ns": round(started * 1e9),
        "load_ms": load_ms,
        **prove_backend(mnn, options.backend, used.get("backend_type"), work_dir, output),
        "threads": options.threads,
        "precision": options.precision,
        "memory": options.memory,
        "config": used,
        "stop_tokens": stops,
        "rss_before_bytes": rss_before,
        "rss_bytes": rss_bytes(),
        "cache_before_bytes": cache_before,
    }
    return Model(engine, stops, output, options.margins), fields


def prove_backend(mnn: Any, asked: str, configured: str | None, work_dir: Path, output: EngineOutput) -> dict[str, Any]:
    """Return which backend runs, in the engine's own words.

    A fallback is a line in its log. Otherwise it is asked: a one-operator session for the same backend in this
    process names the backend that the engine really made for it.
    """
    code = session_backend(mnn, asked, work_dir)
    answered = BACKEND_CODES.get(code, str(code))
    line = output.heard()["fallback"]
    if line:
        actual, strength, proof = "cpu" if answered == asked else answered, "log", line
    elif configured == asked:
        actual, strength = answered, "engine"
        proof = (
            f"asked for {asked}, configured {configured}; a session in this process runs on {answered} (code {code})"
        )
    else:
        actual, strength, proof = None, "none", f"asked for {asked}, but the engine's configuration says {configured}"
    return {"backend_requested": asked, "backend_actual": actual, "strength": strength, "proof": proof}


def session_backend(mnn: Any, backend: str, work_dir: Path) -> int:
    """Return MNN's number of the backend that a session for ``backend`` really gets."""
    path = work_dir / "farm_runner_backend.mnn"
    mnn.expr.save([mnn.expr.sqrt(mnn.expr.placeholder([1, 4]))], str(path))
    interpreter = mnn.Interpreter(str(path))
    session = interpreter.createSession({"backend": backend.upper(), "numThread": 1})
    code = int(interpreter.getSessionInfo(session, SESSION_INFO_BACKENDS))
    path.unlink()
    return code


def rss_bytes() -> int | None:
    """Return the memory this process holds now, ``None`` where ``/proc`` may not be read."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def cache_bytes(work_dir: Path) -> int:
    """Return the size of what the engine kept of its tuning (kernels, choices); 0 when there is nothing."""
    return sum(path.stat().st_size for path in work_dir.glob("mnn_cachefile.bin*"))


def abi() -> str:
    machine = platform.machine()
    if struct.calcsize("P") == 4:
        return ABIS_32.get(machine, ABIS.get(machine, machine))
    return ABIS.get(machine, machine)


def run(options: argparse.Namespace, events: Events, output: EngineOutput) -> dict[str, Any]:
    """Do all that was asked, event by event, and return further fields of the ``end`` event."""
    try:
        import MNN as mnn  # noqa: N811
        import MNN.expr  # noqa: F401
    except ImportError as error:
        mnn, missing = None, str(error)
    events.emit(
        "hello",
        runner="farm_runner",
        version=VERSION,
        engine="MNN",
        engine_version=mnn.version() if mnn else None,
        abi=abi(),
        pid=os.getpid(),
        python=platform.python_version(),
        rss_bytes=rss_bytes(),
    )
    if mnn is None:
        raise StageError("config", f"the Python package MNN cannot be imported: {missing}")
    work_dir = (options.work_dir or Path.cwd()).resolve()
    try:
        work_dir.mkdir(parents=True, exist_ok=True)
        for name in ("model", "tensor", "inputs", "outputs"):
            path = getattr(options, name)
            setattr(options, name, path if path is None else path.resolve())
        os.chdir(work_dir)  # some caches of the engine go to the current folder whatever it is told
    except OSError as error:
        raise StageError("config", f"the work folder {work_dir} cannot be used: {error.strerror}") from None
    events.stage = "load"
    if options.tensor is not None:
        run_tensors(mnn, options, events, output, work_dir)
        return {"cache_after_bytes": cache_bytes(work_dir)}
    model = load_in_rounds(mnn, options, events, output, work_dir)
    events.stage = "decode"
    loop = Work(options, model).do(events)
    return {"engine_loop": loop, "cache_after_bytes": cache_bytes(work_dir)}


def load_in_rounds(
    mnn: Any, options: argparse.Namespace, events: Events, output: EngineOutput, work_dir: Path
) -> Model:
    """Load as often as asked, each time without the one before, and return the last.

    Raises:
        StageError: it does not load, or runs on another backend than required.
    """
    number = 0
    while True:
        model, fields = load(mnn, options, work_dir, output)
        events.emit("load", round=number, **fields)
        if options.require_backend and fields["backend_actual"] != options.backend:
            raise StageError("fallback", f"{options.backend} was asked for and not used: {fields['proof']}")
        number += 1
        if number == options.load_rounds:
            return model
        del model  # the engine frees it now


class Work:
    """What there is to generate, one after the other."""

    def __init__(self, options: argparse.Namespace, model: Model) -> None:
        self.options = options
        self.model = model
        # The history is cut from the same text; the prompt goes on where it ends.
        tokens = model.prompt(options.prompt_text, options.context_tokens + options.prompt_tokens)
        self.history, self.prompt = tokens[: options.context_tokens], tokens[options.context_tokens :]
        self.speeds: list[float] = []
        self.first_timed = 0.0

    def do(self, events: Events) -> dict[str, Any] | None:
        """Generate all, event by event, and return what the engine's own loop counts for the timed prompt."""
        for index, (kind, question, limit) in enumerate(self.steps()):
            try:
                made = self.generate(kind, question, limit)
            except StageError as error:
                if error.generation is not None:
                    events.emit("generation", index=index, kind=kind, **error.generation)
                raise
            events.emit("generation", index=index, kind=kind, **made)
        events.stage = "engine_loop"
        wanted = self.speeds and not self.history and self.options.duration_s is None and not self.options.margins
        return self.model.engine_loop(self.prompt, self.options.generate_tokens) if wanted else None

    def steps(self) -> Iterator[tuple[str, str, int]]:
        """Yield kind, question and longest answer; which come after a timed generation depends on it."""
        for _ in range(self.options.warmups):
            yield "warmup", "", 0
        while self.wants_more():
            yield "timed", "", 0
        for question, limit in self.options.ask:
            yield "answer", question, limit or self.options.ask_tokens

    def wants_more(self) -> bool:
        """Whether another timed generation follows."""
        options, done = self.options, len(self.speeds)
        if options.duration_s is not None:
            return not done or time.perf_counter() - self.first_timed < options.duration_s
        if done < options.repeats or options.cv_limit is None:
            return bool(done < options.repeats)
        return bool(done < (options.max_repeats or 0) and spread(self.speeds) > options.cv_limit)

    def generate(self, kind: str, question: str, limit: int) -> dict[str, Any]:
        if kind == "answer":
            return self.model.answer(question, limit)
        made = self.model.timed(self.prompt, self.options.generate_tokens, self.history)
        if kind == "timed":
            self.first_timed = self.first_timed or made["begun_ns"] / 1e9
            span_ms = sum(made["token_ms"])
            self.speeds.append(len(made["token_ms"]) / span_ms if span_ms else 0.0)
        return made


def spread(values: Sequence[float]) -> float:
    """Return standard deviation over mean; 0 below two values."""
    mean = statistics.fmean(values) if values else 0.0
    return statistics.stdev(values) / mean if len(values) > 1 and mean > 0 else 0.0


# --- ordinary models ---

TENSOR_DTYPES = ("float32", "int32", "uint8", "int8")
#: ``getSessionInfo``'s number for how resizing went; sessions that work out shapes only when told to; NHWC tensors.
SESSION_INFO_RESIZE, RESIZE_DEFER, NHWC = 3, 7, 0


class Sample:
    """One sample: its arrays by the model's input names."""

    def __init__(self, name: str, arrays: dict[str, Any]) -> None:
        self.name = name
        self.arrays = arrays


def read_samples(folder: Path) -> list[Sample]:
    """Return the samples of ``index.json``.

    Raises:
        StageError: the index or a file is not what it should be.
    """
    import numpy as np  # comes with MNN, and language models do not need it here

    index = read_object(folder / "index.json", "input")
    samples = []
    try:
        for sample in index["samples"]:
            arrays = {}
            for tensor in sample["tensors"]:
                if tensor["dtype"] not in TENSOR_DTYPES:
                    raise StageError("input", f"{tensor['name']} is {tensor['dtype']}, which the engine does not take")
                path = folder / tensor["file"]
                check_file(path, f"sample {sample['name']}", "input")
                if any(extent < 0 for extent in tensor["shape"]):
                    raise ValueError(f"{tensor['name']} has the shape {tensor['shape']}")
                arrays[tensor["name"]] = np.fromfile(path, tensor["dtype"]).reshape(tensor["shape"])
            samples.append(Sample(sample["name"], arrays))
    except (KeyError, TypeError, ValueError) as error:
        raise StageError("input", f"{folder} is no folder of samples: {type(error).__name__}: {error}") from None
    if not samples:
        raise StageError("input", f"{folder} holds no sample")
    return samples


class AsSession:
    """An ordinary model as a session, sized for one sample at a time.

    Creating one raises what the bindings raise, where only a module can run the model.
    """

    def __init__(self, mnn: Any, options: argparse.Namespace, sample: Sample) -> None:
        self.mnn = mnn
        self.interpreter = mnn.Interpreter(str(options.tensor))
        self.interpreter.setSessionMode(RESIZE_DEFER)
        config = {"backend": options.backend.upper(), "numThread": options.threads}
        self.session = self.interpreter.createSession(
            {**config, "precision": options.precision, "memory": options.memory}
        )
        self.tensors = self.interpreter.getSessionInputAll(self.session)
        self.resize(sample)

    def resize(self, sample: Sample) -> None:
        """Make room for a sample.

        Raises:
            StageError: the model takes other inputs, or cannot work out its shapes.
        """
        if set(sample.arrays) != set(self.tensors):
            takes, gives = ", ".join(sorted(self.tensors)), ", ".join(sorted(sample.arrays))
            raise StageError("input", f"the model takes {takes}, sample {sample.name} gives {gives}")
        for name, array in sample.arrays.items():
            self.interpreter.resizeTensor(self.tensors[name], array.shape)
        self.interpreter.resizeSession(self.session)
        told = self.interpreter.getSessionInfo(self.session, SESSION_INFO_RESIZE)
        # The bindings hand out the bits of this integer as a float.
        if struct.unpack("<i", struct.pack("<f", told))[0]:
            raise StageError("input", f"the engine cannot work out its shapes for sample {sample.name}")
        self.hosts = {
            name: self.mnn.Tensor(array.shape, self.tensors[name].getDataType(), array, self.layout(self.tensors[name]))
            for name, array in sample.arrays.items()
        }

    def layout(self, tensor: Any) -> Any:
        """Return the layout in which a tensor's shape reads: never the engine's own blocks of four channels."""
        nhwc = tensor.getDimensionType() == NHWC
        return self.mnn.Tensor_DimensionType_Tensorflow if nhwc else self.mnn.Tensor_DimensionType_Caffe

    def run(self) -> dict[str, Any]:
        """Run it once, inputs in and outputs out; :meth:`array` makes an array of each.

        Raises:
            StageError: the engine failed.
        """
        for name, host in self.hosts.items():
            if not self.tensors[name].copyFrom(host):
                raise StageError("input", f"the engine does not take input {name}")
        code = self.interpreter.runSession(self.session)
        if code:
            raise StageError("run", f"the engine ended the run with error {code}")
        made = {}
        for name, tensor in self.interpreter.getSessionOutputAll(self.session).items():
            host = self.mnn.Tensor(tensor, self.layout(tensor))
            if not tensor.copyToHostTensor(host):
                raise StageError("output", f"the engine does not hand out output {name}")
            made[name] = host
        return made

    def array(self, host: Any) -> Any:
        """Return an output as an array of its own: the engine's lies in memory that goes with ``host``."""
        return host.getNumpyData().copy()

    def proof(self, options: argparse.Namespace, work_dir: Path, output: EngineOutput) -> dict[str, Any]:
        """Return which backend the session runs on, in the engine's own words."""
        code = int(self.interpreter.getSessionInfo(self.session, SESSION_INFO_BACKENDS))
        ran = BACKEND_CODES.get(code, str(code))
        line = output.heard()["fallback"]
        if line:
            ran = "cpu" if ran == options.backend else ran
            return {"backend_actual": ran, "strength": "log", "proof": line}
        proof = f"asked for {options.backend}; the session runs on {ran} (code {code})"
        return {"backend_actual": ran, "strength": "engine", "proof": proof}


class AsModule:
    """An ordinary model as a module, which runs conditions and loops. Only for the CPU something proves what ran."""

    def __init__(self, mnn: Any, options: argparse.Namespace, sample: Sample) -> None:
        self.mnn = mnn
        config = {"backend": "CPU", "numThread": options.threads, "precision": options.precision}
        manager = mnn.nn.create_runtime_manager(({**config, "memory": options.memory},))
        info = mnn.nn.load_module_from_file(str(options.tensor), [], []).get_info()
        self.names, self.outputs = list(info["inputNames"]), list(info["outputNames"])
        self.wanted = {name: info["inputs"][number] for number, name in enumerate(self.names)}
        self.module = mnn.nn.load_module_from_file(
            str(options.tensor), self.names, self.outputs, runtime_manager=manager
        )
        self.resize(sample)

    def resize(self, sample: Sample) -> None:
        """Take a sample; a module sizes itself."""
        if set(sample.arrays) != set(self.names):
            takes, gives = ", ".join(sorted(self.names)), ", ".join(sorted(sample.arrays))
            raise StageError("input", f"the model takes {takes}, sample {sample.name} gives {gives}")
        self.arrays = sample.arrays

    def run(self) -> dict[str, Any]:
        """Run it once, inputs in and outputs out."""
        import numpy as np

        expr = self.mnn.expr
        fed = [self.variable(self.wanted[name], self.arrays[name]) for name in self.names]
        made = self.module.forward(fed)
        if len(made) != len(self.outputs):
            raise StageError("run", "the engine computed nothing")
        plain = [expr.convert(var, expr.NCHW) if var.data_format == expr.NC4HW4 else var for var in made]
        # The bindings do not read what has no element.
        return {
            self.outputs[number]: np.zeros(var.shape, np.float32) if 0 in var.shape else np.array(var.read())
            for number, var in enumerate(plain)
        }

    def array(self, made: Any) -> Any:
        """Return an output as an array, which it is already."""
        return made

    def variable(self, wanted: Any, array: Any) -> Any:
        """Return an input as the engine's variable, in the layout that the model takes."""
        expr = self.mnn.expr
        blocks, int8 = wanted.data_format == expr.NC4HW4, str(array.dtype) == "int8"
        written = array.astype("int32") if int8 else array  # the bindings do not write bytes with a sign
        dtypes = {"int32": expr.int, "uint8": expr.uint8, "float32": expr.float}
        layout = expr.NCHW if blocks else wanted.data_format
        variable = expr.placeholder(list(array.shape), layout, dtypes[str(written.dtype)])
        variable.write(written)
        if int8:
            variable = expr.cast(variable, expr.int8)
        return expr.convert(variable, expr.NC4HW4) if blocks else variable

    def proof(self, options: argparse.Namespace, work_dir: Path, output: EngineOutput) -> dict[str, Any]:
        """Return what a session in this process runs on: below the CPU there is nothing to fall back to."""
        return prove_backend(self.mnn, options.backend, options.backend, work_dir, output)


def load_tensors(
    mnn: Any, options: argparse.Namespace, sample: Sample, work_dir: Path, output: EngineOutput
) -> tuple[Any, dict[str, Any]]:
    """Load an ordinary model, sized for its first sample, and return it with the fields of the ``load`` event.

    Raises:
        StageError: the file is not right, or the engine does not take it.
    """
    check_file(options.tensor, "model", "load")
    rss_before, cache_before = rss_bytes(), cache_bytes(work_dir)
    started = time.perf_counter()
    try:
        model: Any = AsSession(mnn, options, sample)
    except StageError as error:
        if error.stage != "input":
            raise
        model = load_module(mnn, options, sample, str(error), output)
    except Exception as error:  # noqa: BLE001 - the binding raises plain Exception over what only a module can do
        model = load_module(mnn, options, sample, str(error), output)
    load_ms = (time.perf_counter() - started) * 1e3
    return model, {
        "begun_ns": round(started * 1e9),
        "load_ms": load_ms,
        "backend_requested": options.backend,
        **model.proof(options, work_dir, output),
        "threads": options.threads,
        "precision": options.precision,
        "memory": options.memory,
        "ran_as": "session" if isinstance(model, AsSession) else "module",
        "rss_before_bytes": rss_before,
        "rss_bytes": rss_bytes(),
        "cache_before_bytes": cache_before,
    }


def load_module(mnn: Any, options: argparse.Namespace, sample: Sample, why: str, output: EngineOutput) -> AsModule:
    """Load what a session refused, ``why`` is what it said; only of the CPU something proves what runs a module."""
    if options.backend != "cpu":
        says = f"a session cannot run it ({why}), and nothing proves that {options.backend} runs a module"
        raise StageError("fallback", with_complaint(says, output))
    try:
        return AsModule(mnn, options, sample)
    except StageError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        says = f"the engine does not load {options.tensor}: {error or type(error).__name__}; as a session: {why}"
        raise StageError("load", with_complaint(says, output)) from None


def run_tensors(mnn: Any, options: argparse.Namespace, events: Events, output: EngineOutput, work_dir: Path) -> None:
    """Load the model, time it on the first sample, run every sample once and write its outputs.

    Raises:
        StageError: the samples are not right, or the engine failed or took another backend than required.
    """
    samples = read_samples(options.inputs)
    model, fields = load_tensors(mnn, options, samples[0], work_dir, output)
    events.emit("load", round=0, **fields)
    if options.require_backend and fields["backend_actual"] != options.backend:
        raise StageError("fallback", f"{options.backend} was asked for and not used: {fields['proof']}")
    try:
        options.outputs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StageError("output", f"{options.outputs} cannot be made: {error.strerror}") from None
    kinds = [*["warmup"] * options.warmups, *["timed"] * options.repeats]
    work = [*((kind, samples[0]) for kind in kinds), *(("check", sample) for sample in samples)]
    events.stage = "run"
    for index, (kind, sample) in enumerate(work):
        if kind == "check" and len(samples) > 1:
            model.resize(sample)
        begun = time.perf_counter()
        made = model.run()
        latency_ms = (time.perf_counter() - begun) * 1e3
        events.emit(
            "inference",
            index=index,
            kind=kind,
            sample=sample.name,
            latency_ms=latency_ms,
            begun_ns=round(begun * 1e9),
            rss_bytes=rss_bytes(),
        )
        if kind == "check":
            arrays = {name: model.array(one) for name, one in made.items()}
            write_outputs(options.outputs, sample.name, arrays, events)


def write_outputs(folder: Path, sample: str, made: dict[str, Any], events: Events) -> None:
    """Write the outputs of one sample as raw little-endian files, and tell of each.

    Raises:
        StageError: the disk refuses, or there is nothing to write.
    """
    if not made:
        raise StageError("output", "the model has no outputs")
    for number, (name, array) in enumerate(sorted(made.items())):
        file = f"{sample}.{number}.bin"
        little = array.astype(array.dtype.newbyteorder("<"))
        try:
            (folder / file).write_bytes(little.tobytes())
        except OSError as error:
            raise StageError("output", f"{folder / file} cannot be written: {error.strerror}") from None
        dtype, shape = str(array.dtype), [int(extent) for extent in array.shape]
        events.emit("output", sample=sample, name=name, dtype=dtype, shape=shape, file=file)


def failed(events: Events, stage: str, message: str) -> int:
    events.emit("error", stage=stage, message=message)
    events.emit("end", status="error")
    return 1


def main(argv: Sequence[str]) -> int:
    options = parse_options(argv)
    events = Events(os.dup(1))
    output = EngineOutput(events.fd)
    try:
        events.emit("end", status="ok", **run(options, events, output))
    except StageError as error:
        return failed(events, error.stage, str(error))
    except Exception as error:  # noqa: BLE001 - the binding raises plain Exception; the reader of events must hear of it
        traceback.print_exc()
        return failed(events, events.stage, with_complaint(f"{type(error).__name__}: {error}", output))
    finally:
        output.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
