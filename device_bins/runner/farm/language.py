"""A language model: loaded, and stepped token by token."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from farm.backend import cache_bytes, prove_backend, rss_bytes
from farm.model_files import check_model, stop_tokens
from farm.talk import EngineOutput, Events, StageError, with_complaint

#: How many tokens ``--margins`` names behind the chosen one, and how many of the first token's logits are told.
RIVALS = 6
FIRST_LOGITS = 10


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
