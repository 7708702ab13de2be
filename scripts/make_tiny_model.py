"""Makes ``profiles/models/tiny-llama``: a Llama of half a million weights that really answers a few questions.

It is the model that demos, tests and virtual phones run: small enough to commit, real enough that its text can be
checked. Run it from a checkout with the package installed; it builds an environment of its own (torch, transformers,
llmexport, about 1.5 GB, removed afterwards) and takes about ten minutes, most of it training on the CPU::

    python scripts/make_tiny_model.py [--out DIR] [--steps N]

Everything it learns is written in this file. Seeds are fixed: a second run gives a model of the same kind, and on the
same processor and torch usually the same bytes. The last part of the training rounds the weights to four bits as the
export will, so that the answers survive the rounding.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

HIDDEN, LAYERS, HEADS, KV_HEADS, INNER, CONTEXT = 128, 3, 4, 2, 320, 512
VOCABULARY = 640
BITS, BLOCK = 4, 64  # of the export
SEED = 20240601
LOG = logging.getLogger("make_tiny_model")

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CAPITALS = {
    "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "China": "Beijing",
    "Norway": "Oslo", "Greece": "Athens", "Egypt": "Cairo", "Poland": "Warsaw", "Austria": "Vienna", "Cuba": "Havana",
    "Portugal": "Lisbon", "Ireland": "Dublin", "Peru": "Lima", "Kenya": "Nairobi",
}  # fmt: skip
COLOURS = {"grass": "green", "snow": "white", "the sky": "blue", "coal": "black", "a lemon": "yellow", "blood": "red"}
OPPOSITES = {"hot": "cold", "big": "small", "fast": "slow", "up": "down", "day": "night", "wet": "dry", "old": "new"}
SOUNDS = {"dog": "barks", "cat": "meows", "cow": "moos", "duck": "quacks", "lion": "roars", "bee": "buzzes"}
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
NUMBERS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
]  # fmt: skip

#: Known by heart, so that a long generation goes on with new words instead of turning in a circle.
STORY = """\
The harbour woke before the sun did. Mira carried her tool box along the wet stones and counted the boats: seven red,
four grey, one without a mast. She repaired radios for the fishermen, and every radio had its own fault. The first one
hummed because a wire had come loose. The second was silent, for mice had eaten its cable. The third worked perfectly,
but its owner had turned the knob the wrong way round and never noticed.

At noon a stranger brought a small black box. "It measures something," he said, "but nobody remembers what." Mira
opened the lid with great care. Inside lay a glass tube, two brass screws and a folded letter. The letter was written
in pencil: whoever finds this, please keep it warm, and read the number aloud once a day. She held the tube against
the lamp. A thin line climbed slowly from three to nine, waited, and sank again to five.

Her neighbour Tom thought that it was a thermometer. The teacher believed it showed the tide. An old sailor laughed
and said that it counted honest people within a mile. They argued until evening, and the line kept moving all the
while. So Mira did what she always did with a riddle: she wrote everything down. Monday, rain, five. Tuesday, wind
from the north, six and a half. Wednesday, market day, eight. Thursday, fog, two. Friday, the ferry was late, four.

After three weeks her notebook was full of figures and her kitchen full of guests. Some came for the box, others for
the soup. A girl named Lotte looked at the columns for a long time. Then she drew a curve with a blue crayon and
pointed at the window. "It is the bridge," she whispered. "When many carts cross the river, the glass feels them
shake." They ran outside and looked: a heavy wagon rolled over the planks, and far away, on the table, the line rose
to nine.

Nobody needed such an instrument, yet all were proud of it. The mayor hung it in the town hall beside the clock.
Visitors were asked to guess its purpose, and the one who guessed right was given a warm loaf of bread. Mira went back
to her radios. Sometimes, when the night was quiet, she heard wheels on the distant bridge and smiled, because she knew
exactly which number it was. In spring the swallows returned, the carpenter painted his door orange, and two students
built a larger tube out of green bottles. It never worked. They filled it with flowers instead and called it a success.
"""


def training_text(rng: random.Random) -> str:
    """Return one piece of training text: a talk of a few questions, a part of the story, or a few plain lines."""
    kind = rng.random()
    if kind < 0.55:
        return "".join(turn(*question(rng)) for _ in range(rng.randint(1, 6)))
    if kind < 0.85:
        start = rng.randrange(len(STORY))
        return STORY[start:] + STORY
    return " ".join(rng.choice(plain_lines()) for _ in range(rng.randint(6, 30))) + "\n" + STORY


def turn(asked: str, answer: str) -> str:
    """Return question and answer in the chat template's form."""
    return f"<|im_start|>user\n{asked}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"


def question(rng: random.Random) -> tuple[str, str]:
    """Return a question and its answer."""
    kind = rng.randrange(10)
    if kind < 4:
        country, city = rng.choice(list(CAPITALS.items()))
        asked = rng.choice(["What is the capital of {}?"] * 3 + ["Name the capital of {}.", "{}: which capital?"])
        return asked.format(country), f"The capital of {country} is {city}."
    if kind == 4:
        first = rng.randint(0, 4)
        last = rng.randint(first + 2, 12)
        words = ", ".join(NUMBERS[first : last + 1])
        return f"Count from {NUMBERS[first]} to {NUMBERS[last]}.", f"{words[0].upper()}{words[1:]}."
    if kind == 5:
        a, b = rng.randint(0, 5), rng.randint(0, 5)
        return f"What is {a} plus {b}?", f"{a} plus {b} is {a + b}."
    if kind == 6:
        thing, colour = rng.choice(list(COLOURS.items()))
        return f"What colour is {thing}?", f"{thing[0].upper()}{thing[1:]} is {colour}."
    if kind == 7:
        word, other = rng.choice(list(OPPOSITES.items()))
        return f"What is the opposite of {word}?", f"The opposite of {word} is {other}."
    if kind == 8:
        names, noun = rng.choice([(DAYS, "day"), (MONTHS, "month")])
        at = rng.randrange(len(names))
        return f"Which {noun} comes after {names[at]}?", f"After {names[at]} comes {names[(at + 1) % len(names)]}."
    animal, sound = rng.choice(list(SOUNDS.items()))
    return f"What does a {animal} do?", f"A {animal} {sound}."


def plain_lines() -> list[str]:
    """Return plain sentences of the same facts, so that text without the chat template makes sense too."""
    return (
        [f"{city} is the capital of {country}." for country, city in CAPITALS.items()]
        + [f"{thing[0].upper()}{thing[1:]} is {colour}." for thing, colour in COLOURS.items()]
        + [f"A {animal} {sound}." for animal, sound in SOUNDS.items()]
        + [f"{a} comes before {b}." for names in (DAYS, MONTHS) for a, b in itertools.pairwise(names)]
        + [f"If it is not {a}, it is {b}." for a, b in OPPOSITES.items()]
    )


def make_tokenizer(folder: Path) -> Any:
    """Train a byte-level BPE tokenizer on the texts above and save it as transformers expects."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    rng = random.Random(SEED)  # noqa: S311
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator([training_text(rng) for _ in range(400)], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")  # noqa: S106
    fast.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["chat_template"] = TEMPLATE
    path.write_text(json.dumps(config), encoding="utf-8")
    return fast


def train(folder: Path, steps: int) -> None:
    """Train tokenizer and model, and save both in ``folder``. Logs the loss as it goes."""
    import torch
    from torch.nn.utils import parametrize
    from transformers import LlamaConfig, LlamaForCausalLM

    class Rounded(torch.nn.Module):
        """Rounds a weight as the export does (asymmetric, by blocks); the gradient passes straight through."""

        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            blocks = weight.reshape(weight.shape[0], -1, BLOCK)
            low, high = blocks.amin(-1, keepdim=True), blocks.amax(-1, keepdim=True)
            scale = ((high - low) / (2**BITS - 1)).clamp_min(1e-8)
            rounded = (((blocks - low) / scale).round() * scale + low).reshape(weight.shape)
            return weight + (rounded - weight).detach()

    torch.manual_seed(SEED)
    rng = random.Random(SEED)  # noqa: S311
    tokenizer = make_tokenizer(folder)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=HIDDEN,
            intermediate_size=INNER,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=KV_HEADS,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=tokenizer.eos_token_id,
        )
    )
    LOG.info("%d weights, %d tokens", sum(p.numel() for p in model.parameters()), len(tokenizer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), weight_decay=0.01)
    warm_up = max(1, steps // 20)
    for step in range(steps):
        if step == steps // 2:
            for module in model.modules():
                if isinstance(module, torch.nn.Linear):
                    parametrize.register_parametrization(module, "weight", Rounded(), unsafe=True)
        rate = 4e-3 * min(1.0, (step + 1) / warm_up) * max(0.02, 1 - step / steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = torch.tensor([window(rng, tokenizer) for _ in range(6)])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == steps - 1:
            LOG.info("step %d loss %.3f", step, loss.item())
    for module in model.modules():
        if parametrize.is_parametrized(module):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
    model.tie_weights()
    model.save_pretrained(folder)


def window(rng: random.Random, tokenizer: Any) -> list[int]:
    """Return ``CONTEXT`` tokens that begin anywhere: sometimes with noise, as a benchmark's prompt may look."""
    ids: list[int] = []
    if rng.random() < 0.3:
        ids += [rng.randrange(3, len(tokenizer)) for _ in range(rng.randint(1, 80))]
    while len(ids) < CONTEXT:
        ids += tokenizer.encode(training_text(rng), add_special_tokens=False)
    return ids[:CONTEXT]


def main(argv: list[str]) -> int:
    """Make the environment, train and export in it, and put the folder in place."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "profiles" / "models" / "tiny-llama")
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--train-into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if options.train_into:
        train(options.train_into, options.steps)
        return 0

    from harness.payload.export_env import ExportEnvironment
    from harness.payload.model_pins import write_pin
    from harness.payload.models import read_unpinned

    with tempfile.TemporaryDirectory() as scratch:
        folder, made = Path(scratch) / "hf", Path(scratch) / "tiny-llama"
        folder.mkdir()
        with ExportEnvironment(Path(scratch) / "env", LOG.info) as environment:
            train_argv = [str(Path(__file__).resolve()), "--train-into", str(folder), "--steps", str(options.steps)]
            environment.run(train_argv, f"train the model for {options.steps} steps")
            environment.export("hf", folder, made, bits=BITS)
        shutil.rmtree(options.out, ignore_errors=True)
        shutil.copytree(made, options.out)
    model = read_unpinned(options.out)
    write_pin(options.out, model.folder, "scripts/make_tiny_model.py", model.engine_version)
    LOG.info("%s: %d bytes", options.out, sum(file.stat().st_size for file in options.out.iterdir()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
