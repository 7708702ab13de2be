"""Bad input on the command line: one sentence, the right exit status, nothing half written, no phone touched."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.adbprogram import find_adb
from harness.payload.models import find_model


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "ANDROID_"))}
    return {**kept, "MNN_FARM_CACHE": str(tmp_path / "cache"), "COLUMNS": "300"}


def pytest_says(env: dict[str, str], *args: str, cwd: Path | None = None) -> tuple[int, str]:
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args]
    done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr + done.stdout
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--devices", ","], "--devices names no phone"),
        (["--devices", "virtual:hihg"], "no virtual phone is described as 'hihg'"),
        (["--devices", "virtual:0"], "virtual:0"),
        (["--devices", "host:7"], "host takes no '7' after it"),
        (
            ["--devices", "host", "--plan", "qick"],
            "--plan qick: there is no such plan or file: plans are full, quick, smoke",
        ),
        (
            ["--devices", "host", "--threads", "two"],
            "--threads two: threads.0: input should be a valid integer, not 'two'",
        ),
        (["--devices", "host", "--threads", ","], "--threads ,: threads needs at least one value"),
        (
            ["--devices", "host", "--backends", "gpu"],
            "backends.0: input should be 'cpu', 'opencl' or 'vulkan', not 'gpu'",
        ),
        (["--devices", "host", "--repeats", "0"], "--repeats 0: repeats: input should be greater than or equal to 1"),
        (["--devices", "host", "--model", "gpt-5"], "there is no model called gpt-5"),
        (["--devices", "host", "--model", "/nowhere/at/all"], "model /nowhere/at/all is not a folder"),
        (["--devices", "host", "--bundle", "/nowhere"], "/nowhere/bundle.toml cannot be read"),
        (["--plan", "smoke"], "--plan means nothing without --devices"),
        (["--adb", "lab2"], "--adb means nothing without --devices"),
        (["--strict-health"], "--strict-health means nothing without --devices"),
        (["--devices", "host", "--adb", "lab2:port"], "--adb lab2:port: this is no HOST:PORT"),
        (["--devices", "tier=top"], "--devices tier=top: tiers are high, mid, low"),
    ],
)
def test_it_is_refused_in_one_sentence_with_status_4(
    env: dict[str, str], tmp_path: Path, args: list[str], sentence: str
) -> None:
    status, text = pytest_says(env, *args, cwd=tmp_path)
    assert status == 4
    assert sentence in text
    assert not (tmp_path / "reports").exists()


def test_a_port_that_is_none_is_one_sentence(env: dict[str, str], tmp_path: Path) -> None:
    status, text = pytest_says({**env, "ANDROID_ADB_SERVER_PORT": "none"}, "--devices", "all", cwd=tmp_path)
    assert status == 11
    assert "ANDROID_ADB_SERVER_PORT is 'none'" in text
    assert "unset it or set it to a port number" in text


def test_a_plan_with_a_typo_names_file_key_and_what_is_allowed(env: dict[str, str], tmp_path: Path) -> None:
    plan = tmp_path / "mine.toml"
    plan.write_text('models = ["tiny-llama"]\nbackends = ["cpu"]\nthread = [1]\n')
    status, text = pytest_says(env, "--devices", "host", "--plan", str(plan))
    assert status == 4
    assert f"{plan}: " in text
    assert "unknown key 'thread'; did you mean 'threads'?" in text


def test_a_model_without_weights_is_named_before_anything_runs(env: dict[str, str], tmp_path: Path) -> None:
    model = shutil.copytree(find_model("tiny-llama"), tmp_path / "model")
    (model / "llm.mnn.weight").unlink()
    folder = tmp_path / "out"
    status, text = pytest_says(env, "--devices", "host", "--model", str(model), "--run-dir", str(folder))
    assert status == 4
    assert f"{model} lacks llm.mnn.weight" in text
    assert not folder.exists()


def test_a_run_folder_that_holds_another_run_is_left_as_it_is(env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    status, text = pytest_says(env, "--devices", "host", "--run-dir", str(folder))
    assert status == 4
    assert f"--run-dir {folder} holds another run" in text
    assert [path.name for path in folder.iterdir()] == ["run.json"]


def test_where_no_sandbox_is_allowed_no_virtual_phone_is_usable(env: dict[str, str], tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    status, text = pytest_says({**env, "MNN_FARM_SANDBOX": "bubblewrap", "PATH": str(empty)}, "--devices", "virtual:1")
    assert status == 11
    assert "no phone can be used" in text
    assert "bubblewrap" in text


@pytest.fixture
def adb_without_phones(env: dict[str, str], tmp_path: Path) -> Iterator[int]:
    """A real adb server that sees no USB and no network, on a port of its own."""
    quiet = {"ADB_USB": "0", "ADB_MDNS": "0", "ADB_EMU": "0", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        adb = str(find_adb(carried_first=True))
        server = subprocess.Popen(
            [adb, "-L", f"acceptfd:{listener.fileno()}", "server", "nodaemon"],
            env={**env, **quiet},
            pass_fds=[listener.fileno()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    try:
        yield port
    finally:
        server.kill()
        server.wait()


def test_with_no_phone_connected_all_ends_with_status_11(env: dict[str, str], adb_without_phones: int) -> None:
    status, text = pytest_says({**env, "ANDROID_ADB_SERVER_PORT": str(adb_without_phones)}, "--devices", "all")
    assert status == 11
    assert "adb lists no phone; connect one, or try without: pytest --devices virtual:2" in text


def test_a_name_nobody_has_lists_what_is_there(env: dict[str, str], adb_without_phones: int) -> None:
    status, text = pytest_says({**env, "ANDROID_ADB_SERVER_PORT": str(adb_without_phones)}, "--devices", "R5CT10ABCDE")
    assert status == 4
    assert "--devices R5CT10ABCDE: no phone has this serial; there are: none" in text


def test_a_port_in_use_by_something_else_is_said(env: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        other.settimeout(0)
        status, text = pytest_says({**env, "ANDROID_ADB_SERVER_PORT": str(port)}, "--devices", "all")
    assert status == 11
    assert f"port 127.0.0.1:{port} is in use, but not by an adb server" in text


def test_without_any_adb_the_sentence_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from harness.core import adbprogram
    from harness.core.errors import HostError

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(adbprogram.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(HostError, match=r"no adb that runs was found.*install Android platform-tools"):
        find_adb()
