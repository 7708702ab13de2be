#!/usr/bin/env python3
"""Stands for MNN's MNNV2Basic, ModuleBasic and benchmark on a virtual phone: prints in their formats, computes nothing.

Called by any of the names. What comes out of which input is in ``answers.json`` beside it: the text of an input's
numbers → that of the output's. ``faults.json`` bends it: ``said`` are lines of the engine, ``made`` the backend of the
session, ``output`` is written in place of every answer, ``mute`` makes it end after its first lines.
"""

import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FAULTS = json.loads((HERE / "faults.json").read_text())
ANSWERS = json.loads((HERE / "answers.json").read_text())
MS = 2.5


def run(loops: int) -> str:
    time.sleep(loops * MS / 1000)
    return f"min= {MS:f} ms, max= {MS:f} ms\n" if loops else ""


def answer(text: Path) -> str:
    return FAULTS.get("output", ANSWERS[text.read_text()])


def engine() -> str:
    said = ["The device supports: i8sdot:0, fp16:0, i8mm: 0, sve2: 0, sme2: 0", *FAULTS.get("said", [])]
    return "".join(f"{line}\n" for line in said)


def mnnv2basic(argv: list) -> str:
    model, loops, _, forward, _, mask = argv[:6]
    out = f"Use extra forward type: {forward}\nOpen Model {model}\n{engine()}"
    if FAULTS.get("mute"):
        return out
    assert Path(model).stat().st_size
    made = FAULTS.get("made", 13 if forward == "0" else int(forward))
    out += "test_main, 303, cost time: 1.500000 ms\nSession Info: memory use 1.000000 MB, flops is 2.000000 M, "
    out += f"backendType is {made}\noutput: y\nprecision:{int(mask) % 4}, memory: {int(mask) // 4}, Run {loops} time:\n"
    (Path(sys.argv[0]).parent / "output.txt").write_text(answer(Path(sys.argv[0]).parent / "input_0.txt"))
    timed = run(int(loops))
    return out + (f"Avg= {MS:f} ms, OpSum = 2.000000 ms {timed}" if timed else "")


def modulebasic(argv: list) -> str:
    model, folder, _, forward, loops, _, mask = argv[:7]
    out = f"{engine()}Test {model} from input info: {folder}\nx\noutput: y\nUse extra forward type: {forward}\n"
    if FAULTS.get("mute"):
        return out
    assert Path(model).stat().st_size
    asked = json.loads((Path(folder) / "input.json").read_text())
    out += f"precision={int(mask) % 4} in main, 260 \nmemory={int(mask) // 4} in main, 261 \n"
    out += "main, 362, cost time: 1.250000 ms\n"
    for repeat in range(asked["repeat"]):
        (Path("output") / f"{repeat}_0.txt").write_text(answer(Path(folder) / f"{asked['inputs'][0]['name']}.txt"))
        out += f"Run for {repeat} time\nSkip check y\nWrite y output to output/{repeat}_0.txt\n"
    timed = run(int(loops))
    return out + (f"Avg= {MS:f} ms, {timed}" if timed else "")


def benchmark(argv: list) -> str:
    folder, loops, warmups, forward, threads, precision = argv[:6]
    name = {"0": "CPU", "3": "OpenCL", "7": "Vulkan"}[forward]
    out = f"MNN benchmark\nForward type: {name} thread={threads} precision={precision} sparsity=0 sparseBlockOC=1 "
    out += f"testQuantizedModel=0 enableKleidiAI=0\n--------> Benchmarking... loop = {loops}, warmup = {warmups}\n"
    out += engine()
    if FAULTS.get("mute"):
        return out
    for model in sorted(Path(folder).iterdir(), reverse=True):
        assert model.stat().st_size
        run(int(loops))
        out += f"[ - ] {model.name:<24}    max = {MS:8.3f} ms  min = {MS:8.3f} ms  avg = {MS:8.3f} ms\n"
    return out


TOOLS = {"MNNV2Basic.out": mnnv2basic, "ModuleBasic.out": modulebasic, "benchmark.out": benchmark}
sys.stdout.write(TOOLS[Path(sys.argv[0]).name](sys.argv[1:]))
