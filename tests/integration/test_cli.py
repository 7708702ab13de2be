"""``mnn-farm`` as a program: answers, exit statuses, one sentence for what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.core.reasons import markdown_table
from harness.payload.models import find_model


def farm(*args: str) -> tuple[int, str, str]:
    argv = [sys.executable, "-m", "harness.cli", *args]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_it_says_its_version() -> None:
    assert farm("--version") == (0, f"mnn-farm {harness.__version__}\n", "")


@pytest.mark.parametrize(
    "verb",
    [
        ("devices",),
        ("devices", "hold"),
        ("devices", "release"),
        ("devices", "history"),
        ("doctor",),
        ("report",),
        ("reasons",),
        ("models", "list"),
        ("models", "fetch"),
        ("models", "import"),
        ("models", "verify"),
        ("models", "check"),
        ("bins", "inspect"),
        ("bins", "import"),
        ("bins", "list"),
        ("bins", "build"),
    ],
)
def test_every_verb_has_help_with_an_example(verb: tuple[str, ...]) -> None:
    status, out, _ = farm(*verb, "--help")
    assert status == 0
    assert f"Example: mnn-farm {' '.join(verb)}" in out


def test_an_unknown_verb_is_wrong_usage() -> None:
    status, _, err = farm("fly")
    assert status == 2
    assert "No such command 'fly'" in err


def test_models_are_listed_as_one_json_document() -> None:
    status, out, err = farm("models", "list", "--json")
    listed = {row["name"]: (row["path"], row["pinned"]) for row in json.loads(out)["models"]}
    assert (status, err) == (0, "")
    assert {"smollm2-135m", "tiny-llama"} <= set(listed)
    assert listed["tiny-llama"] == (str(find_model("tiny-llama")), True)


def test_a_whole_model_is_fine() -> None:
    status, out, _ = farm("models", "verify", "tiny-llama", "--json")
    answer = json.loads(out)
    assert (status, answer["ok"], answer["problems"]) == (0, True, [])
    assert answer["facts"]["weight_bytes"] == (find_model("tiny-llama") / "llm.mnn.weight").stat().st_size


def test_a_model_that_lacks_a_file_is_bad_and_the_fix_is_told(tmp_path: Path) -> None:
    model = shutil.copytree(find_model("tiny-llama"), tmp_path / "model")
    (model / "llm.mnn.weight").unlink()
    status, out, _ = farm("models", "verify", str(model), "--json")
    answer = json.loads(out)
    assert (status, answer["ok"]) == (1, False)
    [problem] = answer["problems"]
    assert (problem["code"], problem["severity"]) == ("model_incomplete", "error")
    assert "lacks llm.mnn.weight" in problem["detail"]
    assert problem["fix"] == "export or download the model again"


def test_all_that_is_wrong_with_a_model_is_told_at_once(tmp_path: Path) -> None:
    model = shutil.copytree(find_model("tiny-llama"), tmp_path / "model")
    (model / "llm.mnn").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (model / "tokenizer.mtok").write_bytes(b"{}")
    config = model / "config.json"
    config.write_text(config.read_text().replace('"cpu"', '"cup"'))
    status, out, _ = farm("models", "verify", str(model), "--json")
    found = [(p["check"], p["code"], p["severity"]) for p in json.loads(out)["problems"]]
    assert status == 1
    assert found == [
        ("setting_unknown", "model_incomplete", "error"),
        ("lfs_pointer", "model_incomplete", "error"),
        ("tokenizer_unreadable", "model_incomplete", "error"),
    ]


def test_an_imported_model_is_known_by_name_and_refused_once_a_byte_of_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MNN_FARM_CACHE", str(tmp_path / "cache"))
    status, out, _ = farm("models", "import", str(find_model("tiny-llama")), "--name", "mine")
    place = Path(out.strip())
    assert (status, place) == (0, tmp_path / "cache" / "models" / "mine")
    listed = {row["name"]: row for row in json.loads(farm("models", "list", "--json")[1])["models"]}
    assert listed["mine"] == {"name": "mine", "path": str(place), "pinned": True}
    weights = bytearray((place / "llm.mnn.weight").read_bytes())
    weights[200_000] ^= 1
    (place / "llm.mnn.weight").write_bytes(weights)
    status, out, _ = farm("models", "verify", "mine")
    assert status == 1
    assert out.startswith(f"error: payload_corrupt: {place}/llm.mnn.weight is not what was pinned: on 20")
    assert farm("models", "import", "--in-place", "mine", "--name", "x")[0] == 2
    assert farm("models", "import", "--in-place", "mine") == (0, f"{place}.pin.json\n", "")
    assert farm("models", "verify", "mine")[0] == 0


def test_a_model_nobody_knows_cannot_be_fetched() -> None:
    status, out, err = farm("models", "fetch", "gpt-5")
    assert (status, out) == (2, "")
    assert err.startswith("mnn-farm: no model is called 'gpt-5'")


def test_a_folder_that_is_no_run_gives_no_report(tmp_path: Path) -> None:
    status, _, err = farm("report", str(tmp_path))
    assert status == 2
    assert err == f"mnn-farm: {tmp_path} is not a run folder (it has no run.json): name one below reports/\n"
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_reasons_is_that_of_the_code() -> None:
    assert farm("reasons") == (0, markdown_table(), "")


def test_doctor_names_two_adb_versions_and_the_missing_sandbox_each_with_its_fix(tmp_path: Path) -> None:
    for name, version in (("old", 39), ("new", 41)):
        adb = tmp_path / name / "adb"
        adb.parent.mkdir()
        adb.write_text(f"#!/bin/sh\necho Android Debug Bridge version 1.0.{version}\n")
        adb.chmod(0o755)
    env = {"PATH": f"{tmp_path / 'old'}:{tmp_path / 'new'}", "HOME": str(tmp_path), "MNN_FARM_SANDBOX": "bubblewrap"}
    env |= {"MNN_FARM_CACHE": str(tmp_path / "cache"), "ANDROID_ADB_SERVER_PORT": "1"}
    argv = [sys.executable, "-m", "harness.cli", "doctor"]
    done = subprocess.run([*argv, "--json"], env=env, capture_output=True, text=True, timeout=120, check=False)
    answer = json.loads(done.stdout)
    found = {finding["code"]: finding for finding in answer["findings"]}
    assert (done.returncode, answer["ok"]) == (0, True)  # warnings: real phones can be used all the same
    assert found["adb_versions_differ"]["fix"].startswith(f"keep one: put {tmp_path / 'old'} first in PATH")
    assert found["sandbox_missing"]["fix"].startswith("install bubblewrap")
    people = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False).stdout
    assert people.count("fix: ") == len(answer["findings"])


def test_doctor_ends_with_1_when_something_must_be_mended(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MNN_FARM_CACHE": str(tmp_path)}
    argv = [sys.executable, "-m", "harness.cli", "doctor", "--json"]
    env["ANDROID_ADB_SERVER_PORT"] = "none"
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    [error] = [finding for finding in json.loads(done.stdout)["findings"] if finding["severity"] == "error"]
    assert (done.returncode, error["code"]) == (1, "adb_port_wrong")
