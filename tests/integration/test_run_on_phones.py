"""``pytest --devices …`` from outside, as a person runs it: on virtual phones behind real adb, and on this PC."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

from harness.payload.models import find_model, read_model
from harness.payload.models_fetch import model_path
from harness.report.recommend import choices
from harness.store.runfolder import RunFolder
from harness.store.schema import CellRecord

RUN_TIMEOUT_S = 240
QUICK = ("--threads=1", "--repeats=2", "--generate-tokens=16")


class Outcome:
    """What a run left."""

    def __init__(self, done: subprocess.CompletedProcess[str], folder: Path) -> None:
        self.status = done.returncode
        self.text = done.stdout + done.stderr
        self.folder = folder

    @property
    def records(self) -> list[CellRecord]:
        return list(RunFolder(self.folder).records())

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text()


Runner = Callable[..., Outcome]


@pytest.fixture(scope="module")
def environment(farm_cache: Path) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    return {**env, "MNN_FARM_CACHE": str(farm_cache), "COLUMNS": "200", "CI": "true"}


@pytest.fixture(scope="module")
def run(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Runner:
    def go(
        *args: str, folder: Path | None = None, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> Outcome:
        target = folder or tmp_path_factory.mktemp("run") / "out"
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args, "--run-dir", str(target)]
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
            env={**environment, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
        )
        return Outcome(done, target)

    return go


@pytest.fixture(scope="module")
def two_phones(run: Runner) -> Outcome:
    return run("--devices", "virtual:2", "--plan", "smoke")


def test_every_cell_of_both_phones_has_one_record(two_phones: Outcome) -> None:
    assert two_phones.status == 0, two_phones.text
    records = two_phones.records
    assert len({record.cell_id for record in records}) == len(records) == 8
    phones = {record.phone.name for record in records}
    assert len(phones) == 2
    for phone in phones:
        cells = [(r.config.backend, r.config.threads, r.verdict.value) for r in records if r.phone.name == phone]
        assert sorted(cells) == [
            ("cpu", 1, "ok"),
            ("cpu", 2, "ok"),
            ("opencl", 68, "unsupported"),
            ("vulkan", 4, "unsupported"),
        ]


def test_every_ok_cell_proves_its_backend_and_has_its_figures(two_phones: Outcome) -> None:
    ok = [record for record in two_phones.records if record.verdict.value == "ok"]
    for record in ok:
        assert record.backend is not None
        assert record.metrics is not None
        assert record.output is not None
        assert record.backend.actual == "cpu"
        assert record.backend.strength in ("engine", "log")
        assert record.backend.proof
        assert record.metrics.ttft_ms is not None
        assert record.metrics.decode_tps is not None
        assert 0 < record.metrics.ttft_ms.min <= record.metrics.ttft_ms.p50 <= record.metrics.ttft_ms.max
        assert record.metrics.decode_tps.n == record.config.repeats
        assert record.metrics.peak_rss_bytes is not None
        assert 20_000_000 < record.metrics.peak_rss_bytes < 500_000_000
        assert record.output.golden == "1/1"
        assert "Paris" in record.output.text
        timed = [sample for sample in record.samples if sample.kind == "timed"]
        assert [(s.prompt_tokens, s.generated_tokens) for s in timed] == [(32, 32)] * record.config.repeats


def test_figures_can_be_recomputed_from_the_raw_events(two_phones: Outcome) -> None:
    record = next(record for record in two_phones.records if record.verdict.value == "ok")
    assert record.raw is not None
    assert record.metrics is not None
    assert record.metrics.decode_tps is not None
    events = [json.loads(line) for line in (two_phones.folder / record.raw / "stdout").read_bytes().splitlines()]
    timed = [event for event in events if event["event"] == "generation" and event["kind"] == "timed"]
    speeds = sorted((event["generated_tokens"] - 1) / sum(event["token_ms"]) * 1000 for event in timed)
    assert record.metrics.decode_tps.median == pytest.approx(speeds[len(speeds) // 2])
    probe = [json.loads(line) for line in (two_phones.folder / record.raw / "events.jsonl").read_bytes().splitlines()]
    assert probe[-1]["ev"] == "end"
    assert record.metrics.peak_rss_bytes == probe[-1]["maxrss_bytes"]


def test_the_folder_holds_report_csv_and_junit(two_phones: Outcome) -> None:
    page = (two_phones.folder / "report.html").read_text()
    assert "2 phones, 8 cells: 4 ok, 4 unsupported" in page
    assert len((two_phones.folder / "results.csv").read_text().splitlines()) == 9
    assert len(json.loads((two_phones.folder / "results.json").read_text())["cells"]) == 8
    suites = ElementTree.parse(two_phones.folder / "junit.xml").getroot()  # noqa: S314  our own
    assert (suites.get("tests"), suites.get("failures"), suites.get("skipped")) == ("8", "0", "4")


def test_the_end_of_the_output_says_it_in_one_line(two_phones: Outcome) -> None:
    assert "2 phones, 8 cells: 4 ok, 4 unsupported (no OpenCL, no Vulkan on these phones)" in two_phones.text
    assert str(two_phones.folder / "report.html") in two_phones.text


def test_phones_that_share_a_processor_never_measured_at_once(two_phones: Outcome) -> None:
    spans = []
    for record in two_phones.records:
        if record.raw is not None:
            lines = (two_phones.folder / record.raw / "events.jsonl").read_bytes().splitlines()
            spans.append((json.loads(lines[0])["mono_ns"], json.loads(lines[-1])["mono_ns"]))
    spans.sort()
    assert len(spans) == 4
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


def test_a_second_run_has_the_same_cells_and_pushes_no_byte(two_phones: Outcome, run: Runner) -> None:
    again = run("--devices", "virtual:2", "--plan", "smoke")
    assert again.status == 0, again.text
    assert sorted(r.cell_id for r in again.records) == sorted(r.cell_id for r in two_phones.records)
    pushed = re.findall(r"pushed (?:and verified: )?(\d+) bytes", again.log)
    assert pushed == ["0"] * 4
    assert "pushing" not in again.log


def test_an_opencl_cell_that_ran_on_the_cpu_is_rejected(run: Runner) -> None:
    done = run("--devices", "virtual:high-opencl", "--plan", "smoke", "--backends", "cpu,opencl", *QUICK)
    by_backend = {record.config.backend: record for record in done.records}
    fell = by_backend["opencl"]
    assert (fell.verdict.value, fell.reason, fell.fault and fell.fault.value) == (
        "rejected",
        "backend_fallback",
        "product",
    )
    assert fell.backend is not None
    assert (fell.backend.requested, fell.backend.actual, fell.backend.strength) == ("opencl", "cpu", "log")
    assert "Can't Find type=3 backend" in fell.backend.proof
    assert by_backend["cpu"].verdict.value == "ok"
    assert done.status == 1
    assert re.search(r"FAILED .*opencl.* - backend_fallback \(product\) on virtual-high-opencl-1: asked", done.text)


def test_this_pc_gives_records_of_the_same_shape(two_phones: Outcome, run: Runner) -> None:
    done = run("--devices", "host", "--plan", "smoke", "--backends", "cpu", *QUICK)
    assert done.status == 0, done.text
    [record] = done.records
    assert record.verdict.value == "ok"
    assert record.phone.name == "host"
    phone = next(record for record in two_phones.records if record.verdict.value == "ok")
    assert _shape(json.loads(record.to_json_line())) == _shape(json.loads(phone.to_json_line()))


def _shape(value: Any, path: str = "") -> set[str]:
    if isinstance(value, dict) and path not in (".nulls", ".config.engine"):
        return {below for key, item in value.items() for below in _shape(item, f"{path}.{key}")}
    # A field that is null here and an object there is the same field.
    return {re.sub(r"\.(p50|p90|p95|min|max|n|median|mad|cv|ci95)$", "", path)}


def test_a_dry_run_lists_the_cells_and_runs_nothing(run: Runner) -> None:
    done = run("--devices", "virtual:high", "--plan", "smoke", "--dry-run-plan")
    assert done.status == 0
    assert re.search(r"tiny-llama cpu-t2-low-p32-g32  about \d+ s", done.text)
    assert "backend_missing_on_phone: no OpenCL driver on this phone" in done.text
    assert "nothing was run" in done.text
    assert not done.folder.exists()


def test_without_xdist_workers_the_same_records_come(run: Runner) -> None:
    done = run("--devices", "host", "--plan", "smoke", "--backends", "cpu", *QUICK, "-n", "0")
    assert done.status == 0, done.text
    assert [record.verdict.value for record in done.records] == ["ok"]


def test_options_that_name_folders_do_not_move_pytests_root(run: Runner, tmp_path: Path) -> None:
    source = find_model("tiny-llama")
    model = tmp_path / "models" / "copy"
    model.mkdir(parents=True)
    for file in source.iterdir():
        (model / file.name).write_bytes(file.read_bytes())
    before = read_model(model).folder.hash
    done = run("--devices", "host", "--plan", "smoke", "--backends", "cpu", *QUICK, "--model", str(model), cwd=tmp_path)
    assert done.status == 0, done.text
    assert read_model(model).folder.hash == before
    assert done.records[0].model.name == "copy"


def test_a_cell_in_which_every_worker_dies_costs_itself_alone_and_is_our_fault(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import os\n"
        "from harness.plugin import judge\n"
        "def test_mine(cell, request):\n"
        "    if cell.cell.threads == 2:\n"
        "        os._exit(9)\n"
        "    judge(request.getfixturevalue('cell_record'))\n"
    )
    args = ("--plan", "smoke", "--backends", "cpu", "--threads", "1,2,3", "--repeats", "2")
    done = run("--devices", "host", *args, str(tmp_path / "test_mine.py"))
    by_threads = {record.config.threads: record for record in done.records}
    assert {threads: record.verdict.value for threads, record in by_threads.items()} == {1: "ok", 2: "failed", 3: "ok"}
    assert by_threads[2].reason == "harness_error"
    # It was run again, once, and killed that worker too.
    assert [record.attempt for record in done.records if record.config.threads == 2] == [1, 2]
    assert len(done.records) == 4
    assert done.status == 1


@pytest.mark.parametrize("how", ["kill", "interrupt"])
def test_a_run_that_is_stopped_leaves_what_it_measured_and_nothing_else(
    environment: dict[str, str], run: Runner, tmp_path: Path, how: str
) -> None:
    folder = tmp_path / "out"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--devices=virtual:2", "--plan=smoke"]
    argv += ["--backends=cpu", "--threads=1,2", "--repeats=100", f"--run-dir={folder}"]
    with (tmp_path / "text").open("wb") as text:
        process = subprocess.Popen(argv, env=environment, stdout=text, stderr=text, start_new_session=True)
    try:
        _wait(lambda: (folder / "results.jsonl").exists() and any(RunFolder(folder).records()), "the first record")
        family = [*psutil.Process(process.pid).children(recursive=True)]
        assert any(child.name() == "adb" for child in family)
        process.send_signal(signal.SIGKILL if how == "kill" else signal.SIGINT)
        status = process.wait(60)
    finally:
        process.kill()
    _wait(lambda: not [child for child in family if _alive(child)], "the end of everything that the run started")
    records = list(RunFolder(folder).records())
    assert records
    assert records[0].verdict.value == "ok"
    assert status == (-signal.SIGKILL if how == "kill" else 2)
    assert (folder / "report.html").exists() is (how == "interrupt")
    again = run("--devices", "virtual:1", "--plan", "smoke", "--backends", "cpu", *QUICK)
    assert again.status == 0, again.text


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait(condition: Callable[[], bool], what: str, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come within {seconds:g} s"
        time.sleep(0.05)


# Some of these the whole arithmetic gets right and the quantised one wrong.
QUESTIONS = {
    "What is 2 + 2?": r"\b(4|four)\b",
    "What is 9 times 9?": r"\b81\b",
    "What is the capital of France?": "Paris",
    "What is the capital of Japan?": "Tokyo",
    "What is the opposite of hot?": "cold",
}


def test_smollm2_answers_worse_at_low_memory_and_that_is_not_recommended_however_fast(
    run: Runner, tmp_path: Path
) -> None:
    if model_path("smollm2-135m") is None:
        pytest.skip("smollm2-135m is not on this computer; get it with: mnn-farm models fetch smollm2-135m")
    golden = tmp_path / "sums.toml"
    for question, expect in QUESTIONS.items():
        with golden.open("a") as file:
            file.write(f"[[ask]]\nquestion = {json.dumps(question)}\nexpect = '{expect}'\nmax_tokens = 14\n")
    (tmp_path / "numerics.toml").write_text(
        'models = ["smollm2-135m"]\nbackends = ["cpu"]\nthreads = [2]\nprecision = ["low", "high"]\n'
        'memory = ["low", "high"]\nprompt_tokens = [16]\ngenerate_tokens = [8]\n'
        "warmups = 1\nrepeats = 1\nload_rounds = 1\n"
    )
    done = run("--devices", "virtual:1", f"--plan={tmp_path / 'numerics.toml'}", f"--golden={golden}")
    assert done.status == 0, done.text
    records = {(record.config.precision, record.config.memory): record for record in done.records}
    texts = {key: record.output for key, record in records.items() if record.output is not None}
    assert len(texts) == 4
    assert {output.match for output in texts.values()} == {"prefix"}
    right = {key: int((output.golden or "").split("/")[0]) for key, output in texts.items()}
    assert right["low", "low"] < right["high", "high"]
    [choice] = choices(done.records)
    by_numerics = {(each.precision, each.memory): each for each in choice.candidates}
    fast, slow = by_numerics["low", "low"], by_numerics["high", "high"]
    assert fast.standing == "wrong"  # whatever its speed was on this machine, now
    assert slow.standing in ("recommended", "slower")  # than low / high, which says the same on a PC
    assert choice.recommended is not None
    assert choice.recommended.memory == "high"
    assert "recommended on virtual-high-1, smollm2-135m: CPU " in done.text
    page = (done.folder / "report.html").read_text()
    assert f"answers {fast.score}, best {slow.score}" in page
