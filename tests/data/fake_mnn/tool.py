#!/usr/bin/env python3
"""Stands for MNN's llm_bench and llm_demo on a virtual phone: prints in their formats, computes nothing.

Called by either name. ``faults.json`` beside it bends what it prints: ``said`` are lines of the engine, ``speeds`` and
``size`` cells of llm_bench's row, ``header`` is its head, ``text`` is what llm_demo writes, ``exit`` its status.
"""

import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FAULTS = json.loads((HERE / "faults.json").read_text())
STEP_S = 0.004


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def engine() -> str:
    lines = ["The device supports: i8sdot:0, fp16:0, i8mm: 0, sve2: 0, sme2: 0", *FAULTS.get("said", [])]
    return "".join(f"{line}\n" for line in lines)


def bench(argv: list) -> None:
    options = {argv[at]: argv[at + 1] for at in range(0, len(argv) - 1, 2)}
    config = Path(options["-m"])
    settings = json.loads(config.read_text())
    assert (config.parent / settings["llm_weight"]).stat().st_size
    assert Path("tmp").is_dir()
    rows = [argv[at + 1].split(",") for at, word in enumerate(argv) if word == "-pg"]
    level = {"0": "Normal", "1": "High", "2": "Low"}[options["-c"]]
    head = FAULTS.get("header", "| model | modelSize | backend | threads | precision | test | speed(tok/s) |")
    out = engine() + f"{head}\n|{' --- |' * (head.count('|') - 1)}\n"
    for prompt, generate in rows:
        time.sleep(2 * STEP_S * int(generate))
        size = FAULTS.get("size", "0.59 MiB")
        speeds = FAULTS.get("speeds", f"{10 / STEP_S:.2f} ± 0.00<br>{1 / STEP_S:.2f} ± 0.00")
        backend = options["-a"].upper()
        out += f"| model | {size} | {backend} | {options['-t']} | {level} | pp{prompt}+tg{generate} | {speeds} |\n"
    say(out + "\n")


def demo(argv: list) -> None:
    say(f"config path is {argv[0]}\n")
    settings = json.loads(Path(argv[0]).read_text())
    time.sleep(0.02)
    out = engine() + "main, 321, cost time: 20.250000 ms\nPrepare for tuning opt Begin\n"
    say(out + f"Prepare for tuning opt End\nmain, 330, cost time: 1.500000 ms\nprompt file is {argv[1]}\n")
    prompts = Path(argv[1]).read_text().splitlines()
    most, pieces = int(argv[2]), FAULTS["pieces"]
    generated = prompt_tokens = 0
    began = time.monotonic()
    for _ in prompts:
        chat = settings["use_template"]
        assert chat or settings["banned_tokens"]
        text = FAULTS["answer"] if chat else FAULTS.get("text", pieces)
        prompt_tokens += FAULTS["prompt_tokens"] if not chat else 5
        time.sleep(10 * STEP_S)
        for piece in text[:most]:
            time.sleep(STEP_S)
            say(piece)
        generated += min(len(text), most)
        if chat and len(text) < most:
            generated += 1
            say("\n")
    took = (time.monotonic() - began) * 0.8
    say(
        f"\n#################################\nprompt tokens num = {prompt_tokens}\ndecode tokens num = {generated}\n"
        f"prefill time = {took / 4:.2f} s\n decode time = {took:.2f} s\n sample time = 0.00 s\n"
        f"prefill speed = {prompt_tokens / (took / 4):.2f} tok/s\n decode speed = {generated / took:.2f} tok/s\n"
        "##################################\n"
    )


if __name__ == "__main__":
    (bench if Path(sys.argv[0]).name == "llm_bench" else demo)(sys.argv[1:])
    raise SystemExit(FAULTS.get("exit", 0))
