"""Models that are broken in ways that MNN does not notice, through the whole chain on a virtual phone with real MNN.

First as a person meets them, before a phone is touched; then with the PC's check left out, to see what the runner on
the phone and the verdict make of them; then with a byte that flips on the way to the phone or on it.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.adb.transport import AdbTransport
from harness.bench.context import RunContext
from harness.bench.leave import leave_as_found
from harness.bench.phone import ConnectedPhone, connect
from harness.bench.session import PhoneSession
from harness.core.provider import Endpoint
from harness.core.transport import PushItem
from harness.payload.bundle import default_bundle
from harness.payload.folder import read_folder
from harness.payload.mnn_tokenizer import read_tokenizer
from harness.payload.models import ModelFolder, find_model, read_model
from harness.payload.models_import import pin_in_place
from harness.plan.load import load_plan
from harness.plan.matrix import cells_of
from harness.plan.tiers import load_tier_rules
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord
from harness.virtual.control import PhoneControl

PHONES = ("high",)
TINY = "tiny-llama"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 54256\n"
AT = 200_000  # a weight in the middle of a layer
PLAN = f"""
schema = 1
models = ["{TINY}"]
backends = ["cpu"]
threads = [1]
prompt_tokens = [16]
generate_tokens = [16]
warmups = 0
repeats = 1
[[ask]]
question = "What is the capital of France?"
expect = "Paris"
"""


def halve_weights(model: Path) -> None:
    weights = model / "llm.mnn.weight"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


def point_to_graph(model: Path) -> None:
    (model / "llm.mnn").write_bytes(POINTER)


def swap_tokenizer(model: Path) -> None:
    """Take a tokenizer of 2000 tokens where the model has 640: characters, and words that no prompt has."""
    texts = [*map(chr, range(33, 127)), "Ġ", "Ċ"]
    texts += [f"word{n}" for n in range(len(texts), 2000)]
    entries = sorted((text.encode(), token) for token, text in enumerate(texts))
    vocabulary = b"".join(struct.pack("<H", len(text)) + text + struct.pack("<I", token) for text, token in entries)
    body = b"\0\x01\x01" + struct.pack("<BIBBI", 0, len(texts), 0, 0, 0) + vocabulary + b"\0" + bytes(4)
    (model / "tokenizer.mtok").write_bytes(b"430 4\n0 1 0\n1999\n" + body)


def shuffle_tokenizer(model: Path) -> None:
    """Let tokens of the same length change places: the same size, the same words, another meaning."""
    file = model / "tokenizer.mtok"
    data = file.read_bytes()
    words = [word for word in (read_tokenizer(data).texts or ()) if len(word) == 3 and word.isalpha()]
    for one, two in zip(sorted(words)[::2], sorted(words)[1::2], strict=False):
        left, right, between = b"\x03\0" + one, b"\x03\0" + two, b"\x03\0\xff\xff\xff"
        data = data.replace(left, between).replace(right, left).replace(between, right)
    file.write_bytes(data)


def misspell_backend(model: Path) -> None:
    config = model / "config.json"
    config.write_text(config.read_text().replace('"backend_type": "cpu"', '"backend_type": "cup"'))


def flip_a_byte(model: Path) -> None:
    weights = bytearray((model / "llm.mnn.weight").read_bytes())
    weights[AT] ^= 0x40
    (model / "llm.mnn.weight").write_bytes(weights)


def broken(folder: Path, breaks: Callable[[Path], None], *, pinned: bool = False) -> Path:
    model = folder / "mine"
    shutil.copytree(find_model(TINY), model)
    if pinned:
        pin_in_place(model)
    breaks(model)
    return model


# --- as a person meets them ---


@pytest.mark.parametrize(
    ("breaks", "pinned", "says"),
    [
        (
            halve_weights,
            False,
            "{}/llm.mnn.weight (llm_weight) is cut off: it has 190706 bytes and the graph reads 381412: "
            "export or download the model again",
        ),
        (point_to_graph, False, "{}/llm.mnn (llm_model) is a Git LFS pointer, not the file: run: git lfs pull"),
        (
            swap_tokenizer,
            False,
            "{}/tokenizer.mtok (tokenizer_file) knows 2000 tokens and the model has 640: it is another model's "
            "tokenizer: copy the tokenizer that was exported together with this model",
        ),
        (
            misspell_backend,
            False,
            '{}/config.json: backend_type is "cup", which MNN does not know; it would choose a backend by itself and '
            'not say so: write "cpu"',
        ),
        (shuffle_tokenizer, True, "{}/tokenizer.mtok is not what was pinned: on 20"),
        (flip_a_byte, True, "{}/llm.mnn.weight is not what was pinned: on 20"),
    ],
    ids=["half", "pointer", "swapped", "misspelt", "shuffled", "flipped"],
)
def test_a_broken_model_ends_a_run_before_it_begins_with_one_sentence(
    farm_cache: Path, tmp_path: Path, breaks: Callable[[Path], None], pinned: bool, says: str
) -> None:
    model = broken(tmp_path, breaks, pinned=pinned)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices=virtual:1", "--plan=smoke"]
    argv += [f"--model={model}", f"--run-dir={tmp_path / 'out'}"]
    env |= {"MNN_FARM_CACHE": str(farm_cache), "COLUMNS": "200"}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 4, done.stdout + done.stderr
    assert f"ERROR: {says.format(model)}" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not (tmp_path / "out").exists()
    if pinned:
        assert f"restore the file; to accept it as it is: mnn-farm models import --in-place {model}" in done.stderr


# --- with the PC's check left out ---


@pytest.fixture(scope="module")
def connected(virtual_phones: list[Endpoint]) -> Iterator[ConnectedPhone]:
    phone = connect(virtual_phones[0], load_tier_rules())
    yield phone
    leave_as_found(phone, lambda _: None)


@pytest.fixture
def measure(connected: ConnectedPhone, tmp_path: Path) -> Callable[[ModelFolder], CellRecord]:
    """Run one cell with a model, whatever is wrong with it, and return its record."""

    def run(model: ModelFolder) -> CellRecord:
        (tmp_path / "plan.toml").write_text(PLAN)
        plan = load_plan(tmp_path / "plan.toml")
        folder = RunFolder.create(tmp_path / "run") if not (tmp_path / "run").exists() else RunFolder(tmp_path / "run")
        context = RunContext("broken", folder.path, plan, default_bundle(), {TINY: model})
        [planned] = cells_of(plan)
        PhoneSession(connected, context, lambda _: None).run_cell(planned)
        return list(folder.records())[-1]

    return run


def unchecked(folder: Path) -> ModelFolder:
    content = read_folder(folder)
    weights = next(file.size for file in content.files if file.path == "llm.mnn.weight")
    return ModelFolder(TINY, content, weights, None)


def ending(record: CellRecord) -> tuple[str, str | None, str | None]:
    return record.verdict.value, record.reason, record.fault.value if record.fault is not None else None


@pytest.mark.parametrize(
    ("breaks", "says"),
    [(halve_weights, "is cut off: it has 190706 bytes"), (point_to_graph, "is a Git LFS pointer")],
    ids=["half", "pointer"],
)
def test_a_file_that_is_not_whole_is_refused_on_the_phone_too(
    measure: Callable[[ModelFolder], CellRecord], tmp_path: Path, breaks: Callable[[Path], None], says: str
) -> None:
    record = measure(unchecked(broken(tmp_path, breaks)))
    assert ending(record) == ("failed", "load_error", "product")
    assert says in record.detail
    assert record.metrics is None or record.metrics.decode_tps is None


@pytest.mark.parametrize("breaks", [swap_tokenizer, shuffle_tokenizer], ids=["swapped", "shuffled"])
def test_another_tokenizer_shows_on_the_phone_only_in_the_golden_answers(
    measure: Callable[[ModelFolder], CellRecord], tmp_path: Path, breaks: Callable[[Path], None]
) -> None:
    """A reference from the PC would be as wrong as the phone, and the speed is that of the right one."""
    record = measure(unchecked(broken(tmp_path, breaks)))
    assert record.output is not None
    assert record.output.golden == "0/1"
    assert "Paris" not in record.output.text


@pytest.mark.parametrize("breaks", [flip_a_byte, misspell_backend], ids=["flipped", "misspelt"])
def test_what_only_the_pc_can_know_runs_as_if_nothing_were_wrong(
    measure: Callable[[ModelFolder], CellRecord], tmp_path: Path, breaks: Callable[[Path], None]
) -> None:
    """This is why models are pinned: one weight more or less shows neither in the speed nor in the text."""
    record = measure(unchecked(broken(tmp_path, breaks)))
    assert ending(record) == ("ok", None, None), record.detail
    assert record.output is not None
    assert record.output.golden == "1/1"
    assert "Paris" in record.output.text


# --- on the way to the phone, and there ---


def test_a_byte_that_flips_on_the_phone_is_found_named_and_mended(
    measure: Callable[[ModelFolder], CellRecord],
    connected: ConnectedPhone,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = read_model(broken(tmp_path, lambda _: None))
    assert ending(measure(model)) == ("ok", None, None)
    file = f"models/{model.folder.hash[:32]}/llm.mnn.weight"
    PhoneControl(connected.endpoint.name).inject(f"corrupt={connected.transport.base_dir}/{file}")
    caplog.clear()
    assert ending(measure(model)) == ("ok", None, None)
    assert "rotted on the phone and is pushed anew: llm.mnn.weight" in caplog.text


def test_a_link_that_flips_bytes_is_told_and_no_model_arrives(
    measure: Callable[[ModelFolder], CellRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (broken(tmp_path, lambda _: None) / "unseen.bin").write_bytes(os.urandom(100))
    model = read_model(tmp_path / "mine")
    spoilt = tmp_path / "spoilt"
    push = AdbTransport.push

    def flipping(self: AdbTransport, items: Sequence[PushItem], **how: object) -> None:
        there = []
        for item in items:
            data = bytearray(item.local.read_bytes())
            data[len(data) // 2] ^= 1
            there.append(replace(item, local=spoilt / str(len(there))))
            there[-1].local.parent.mkdir(exist_ok=True)
            there[-1].local.write_bytes(data)
        push(self, there, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(AdbTransport, "push", flipping)
    record = measure(model)
    assert ending(record) == ("failed", "payload_corrupt", "infra")
    assert "differs from the local one after two pushes" in record.detail
