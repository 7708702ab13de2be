"""The cells of :mod:`benchmarks.fleet`: ordered of the synthetic runner, which sleeps, so the truth is known.

Each cell of a phone has a prompt of another length, and so a prefill speed of its own: a record that got another cell's
figures is found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.ordered import ordered_bundle
from harness.store.schema import CellRecord

MODEL = "tiny-llama"
TOKEN_MS = 100
LOAD_MS, PREFILL_MS, FIRST_TOKEN_MS = 500, 500, 1
TEXT = " a lab of many phones"
# How far a figure may be from what was ordered, as a share: on a busy computer a process that sleeps is woken late.
SPEED_SHARE, PREFILL_SHARE = 0.02, 0.1
_FIRST_PROMPT = 16


@dataclass(frozen=True)
class Ordered:
    """So many cells a phone, each of which takes so many seconds."""

    cells: int
    seconds: float

    @property
    def tokens(self) -> int:
        """How many tokens fill the time that load and prefill leave."""
        return max(2, round((self.seconds * 1000 - LOAD_MS - PREFILL_MS - FIRST_TOKEN_MS) / TOKEN_MS) + 1)

    @property
    def prompts(self) -> range:
        """The prompts' lengths, one a cell."""
        return range(_FIRST_PROMPT, _FIRST_PROMPT + self.cells)

    def plan(self) -> str:
        """Return the plan."""
        return f"""schema = 1
models = ["{MODEL}"]
backends = ["cpu"]
cold_start = false
threads = [1]
prompt_tokens = {list(self.prompts)}
generate_tokens = [{self.tokens}]
warmups = 0
repeats = 1
load_rounds = 1
[roofline]
measure = false
[reference]
policy = "off"
"""

    def write_bundle(self, folder: Path) -> Path:
        """Make the synthetic runner with these orders, and return its folder."""
        orders = [f"load_ms={LOAD_MS}", f"prefill_ms={PREFILL_MS}", "prefill_token_ms=0", "mode=sleep"]
        orders += [f"first_token_ms={FIRST_TOKEN_MS}", f"token_ms={TOKEN_MS}", f"text={TEXT}"]
        return ordered_bundle(folder, orders)

    def what_is_wrong(self, records: Iterable[CellRecord], phones: int) -> list[str]:
        """Return what is not as it was ordered, a sentence each; none when every cell of every phone is right."""
        records = list(records)
        wrong = [sentence for record in records for sentence in self._of_one(record)]
        attempts = Counter((record.phone.id, record.config.prompt_tokens) for record in records)
        wrong += [f"{phone}: prompt {prompt} has {n} records" for (phone, prompt), n in attempts.items() if n != 1]
        if len(attempts) != phones * self.cells:
            wrong.append(f"{len(attempts)} of {phones * self.cells} cells have a record")
        return wrong

    def _of_one(self, record: CellRecord) -> list[str]:
        where = f"{record.phone.name}, prompt {record.config.prompt_tokens}"
        metrics, output = record.metrics, record.output
        if record.verdict.value != "ok" or metrics is None or output is None:
            return [f"{where}: {record.verdict.value}, {record.reason}: {record.detail}"]
        if metrics.decode_tps is None or metrics.prefill_tps is None:
            return [f"{where}: a speed is missing"]
        prefill = record.config.prompt_tokens * 1000 / PREFILL_MS
        pairs = (
            ("decode", metrics.decode_tps.median, 1000 / TOKEN_MS, SPEED_SHARE),
            ("prefill", metrics.prefill_tps.median, prefill, PREFILL_SHARE),
            ("tokens", sum(sample.generated_tokens for sample in record.samples), self.tokens, 0.0),
        )
        wrong = [
            f"{where}: {name} is {value:.3f}, ordered was {ordered:.3f}"
            for name, value, ordered, share in pairs
            if abs(value / ordered - 1) > share
        ]
        if TEXT not in (output.text or ""):
            wrong.append(f"{where}: another text came out")
        return wrong
