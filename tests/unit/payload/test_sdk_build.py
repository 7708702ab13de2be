"""Our runner is built against an SDK of MNN: for real against a toy engine, and with a cmake that only takes notes."""

from __future__ import annotations

import json
import os
import platform
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.core.errors import ConfigError, HostError
from harness.core.resources import data_root
from harness.payload.models_fetch import model_path
from harness.payload.sdk_build import build_runner, first_error

TOY = Path(__file__).with_name("toy_mnn")
LIBRARIES = {"libMNN.so": "mnn.cpp", "libMNN_CL.so": "opencl.cpp"}


def quiet(_: str) -> None:
    pass


@pytest.fixture(scope="session")
def toy_sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SDK as an installed build has it, over an engine that plays."""
    if shutil.which("g++") is None or shutil.which("cmake") is None:
        pytest.skip("g++ and cmake are not both installed")
    if platform.machine() != "x86_64":
        pytest.skip(f"this computer is {platform.machine()}")
    sdk = tmp_path_factory.mktemp("toy")
    shutil.copytree(TOY / "include", sdk / "include")
    (sdk / "lib").mkdir()
    for name, source in LIBRARIES.items():
        words = ["-shared", "-fPIC", "-O0", f"-I{TOY / 'include'}", str(TOY / source), "-o", str(sdk / "lib" / name)]
        subprocess.run(["g++", *words, f"-Wl,-soname,{name}"], check=True, timeout=120)
    return sdk


@pytest.fixture(scope="session")
def built(toy_sdk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    said: list[str] = []
    out = tmp_path_factory.mktemp("built")
    assert build_runner(toy_sdk, None, out, said.append) == [out / "x86_64"]
    assert said == ["building farm_runner for x86_64 …"]
    return out / "x86_64"


def run(built: Path, work: Path, *options: str) -> tuple[int, list[dict[str, Any]], str]:
    argv = [str(built / "farm_runner"), "--model", str(model_path("tiny-llama")), "--work-dir", str(work)]
    amount = ["--prompt-tokens", "4", "--generate-tokens", "3", "--warmups", "0", "--repeats", "1"]
    done = subprocess.run([*argv, *amount, *options], capture_output=True, timeout=30)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def run_tensor(built: Path, work: Path, *options: str, samples: Any = None) -> tuple[int, list[dict[str, Any]], str]:
    """Run the toy's model, which doubles x to y, on samples by their shapes; or on what stands for an index."""
    inputs, shapes = work / "inputs", ([2, 3], [1]) if samples is None else samples
    inputs.mkdir(parents=True)
    told = []
    for name, shape in enumerate(shapes if samples is None else ()):
        count = 6 if name == 0 else 1
        (inputs / f"{name}.bin").write_bytes(struct.pack(f"<{count}f", *range(count)))
        told.append(
            {"name": f"{name}", "tensors": [{"name": "x", "dtype": "float32", "shape": shape, "file": f"{name}.bin"}]}
        )
    (inputs / "index.json").write_text(json.dumps({"samples": told}) if samples is None else json.dumps(samples))
    (work / "net.mnn").write_bytes(b"model")
    argv = [str(built / "farm_runner"), "--tensor", str(work / "net.mnn"), "--inputs", str(inputs)]
    argv += ["--outputs", str(work / "outputs"), "--work-dir", str(work / "work"), *options]
    done = subprocess.run(argv, capture_output=True, timeout=30)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def test_the_built_runner_runs_ordinary_models(built: Path, tmp_path: Path) -> None:
    code, events, _ = run_tensor(built, tmp_path, "--warmups", "1", "--repeats", "2", "--require-backend")
    assert code == 0
    assert [(event.get("kind"), event.get("sample")) for event in events if event["event"] == "inference"] == [
        ("warmup", "0"), ("timed", "0"), ("timed", "0"), ("check", "0"), ("check", "1"),
    ]  # fmt: skip
    outputs = [event for event in events if event["event"] == "output"]
    assert [(one["name"], one["dtype"], one["shape"], one["file"]) for one in outputs] == [
        ("y", "float32", [2, 3], "0.0.bin"),
        ("y", "float32", [1], "1.0.bin"),
    ]
    assert struct.unpack("<6f", (tmp_path / "outputs" / "0.0.bin").read_bytes()) == (0, 2, 4, 6, 8, 10)
    assert events[1]["proof"] == "asked for cpu; the session runs on cpu (code 13)"


def test_an_ordinary_model_on_a_backend_that_is_not_there_is_not_timed(built: Path, tmp_path: Path) -> None:
    code, events, _ = run_tensor(built, tmp_path, "--backend", "opencl", "--require-backend")
    assert [event["event"] for event in events] == ["hello", "load", "error", "end"]
    assert (code, events[1]["backend_actual"], events[2]["stage"]) == (1, "cpu", "fallback")


def sample(**changed: Any) -> dict[str, Any]:
    """An index with one array, of which something is not as it must be."""
    tensor = {"name": "x", "dtype": "float32", "shape": [2], "file": "x.bin", **changed}
    return {"samples": [{"name": "0", "tensors": [tensor]}]}


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        ([], "holds no sample"),
        ({"samples": [{"name": "0", "tensors": []}]}, "sample 0 of"),
        ({"samples": [{"tensors": []}]}, "name is missing or no text"),
        (sample(dtype="float64"), "x is float64, which the engine does not take"),
        (sample(shape=[-1]), "the shape of x is none"),
        (sample(shape=[2**20, 2**20]), "the shape of x is none"),
        (sample(shape=[1] * 17), "the shape of x is none"),
        (sample(shape="2"), "the shape of x is none"),
        (sample(file="gone.bin"), "gone.bin cannot be read: No such file"),
        (sample(file="index.json"), "its shape and type have 8"),
    ],
)
def test_samples_that_are_none_are_an_error_of_the_input(built: Path, tmp_path: Path, samples: Any, says: str) -> None:
    code, events, stderr = run_tensor(built, tmp_path, samples=samples)
    assert [event["event"] for event in events] == ["hello", "error", "end"], stderr
    assert (code, events[1]["stage"]) == (1, "input")
    assert says in events[1]["message"]


def test_the_program_lies_among_its_libraries(built: Path) -> None:
    assert sorted(path.name for path in built.iterdir()) == ["farm_runner", *sorted(LIBRARIES)]
    assert all(os.access(path, os.X_OK) for path in built.iterdir())


def test_the_built_runner_steps_the_engine(built: Path, tmp_path: Path) -> None:
    code, events, stderr = run(built, tmp_path, "--prompt-text", "xy", "--ask", "wow")
    assert code == 0
    hello, load, timed, answer, end = events
    assert (hello["runner"], hello["engine"], hello["engine_version"]) == ("farm_runner", "MNN", "9.8.7")
    assert (load["backend_actual"], load["strength"]) == ("cpu", "engine")
    assert load["proof"].endswith("the model runs on cpu (code 0); a session in this process runs on cpu (code 13)")
    assert (load["config"]["thread_num"], load["config"]["reuse_kv"], "jinja" in load["config"]) == (4, False, False)
    assert load["config"]["banned_tokens"] == load["stop_tokens"]
    assert (timed["prompt_tokens"], timed["text"], timed["first_logits"][0]) == (4, "yza", [121, 2])
    assert (answer["prompt_tokens"], answer["text"][:3]) == (len("user: wow") + 1, "xyz")
    assert (end["engine_loop"]["token_ids"], end["engine_loop"]["decode_ms"]) == (timed["token_ids"], 0.02)
    assert stderr == "toy engine: loading\n"


def test_a_separate_backend_is_loaded_when_it_is_asked_for_and_a_fallback_is_noticed(
    built: Path, tmp_path: Path
) -> None:
    _, events, stderr = run(built, tmp_path, "--backend", "opencl")
    assert "toy engine: opencl is there\n" in stderr
    assert (events[1]["backend_actual"], events[1]["strength"]) == ("cpu", "log")
    assert events[1]["proof"] == "Can't Find type=3 backend, use 0 instead"


def test_a_required_backend_that_was_not_taken_ends_the_run(built: Path, tmp_path: Path) -> None:
    code, events, _ = run(built, tmp_path, "--backend", "opencl", "--require-backend")
    assert (code, events[2]["stage"]) == (1, "fallback")


@pytest.mark.parametrize(
    ("options", "stage", "says"),
    [
        (("--prompt-text", "ab!"), "prefill", "the engine threw: no such letter"),
        (("--prompt-text", "ab?"), "prefill", "the engine computed nothing"),
        (("--engine", "refuse=true"), "load", "the engine did not load"),
    ],
)
def test_what_the_engine_refuses_is_an_error_of_its_stage(
    built: Path, tmp_path: Path, options: tuple[str, ...], stage: str, says: str
) -> None:
    code, events, _ = run(built, tmp_path, *options)
    [error] = [event for event in events if event["event"] == "error"]
    assert (code, error["stage"], error["message"].startswith(says)) == (1, stage, True)


def test_headers_that_do_not_fit_are_the_compilers_first_error(toy_sdk: Path, tmp_path: Path) -> None:
    headers = Path(shutil.copytree(toy_sdk / "include", tmp_path / "headers"))
    llm = headers / "llm" / "llm.hpp"
    llm.write_text(llm.read_text().replace("getCurrentHistory", "currentHistory"))
    with pytest.raises(HostError, match=r"for x86_64 failed \(.*error: .*has no member named .getCurrentHistory"):
        build_runner(toy_sdk, None, tmp_path / "out", quiet, headers=headers)


def test_libraries_of_linux_for_another_processor_are_refused(toy_sdk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(ConfigError, match="for x86_64 are of Linux and this computer is riscv64"):
        build_runner(toy_sdk, None, toy_sdk / "out", quiet)


NOTES = """#!{python}
import json, pathlib, sys
if "--build" in sys.argv:
    pathlib.Path(sys.argv[2], "farm_runner").write_bytes(b"built")
else:
    pathlib.Path({notes!r}).write_text(json.dumps(sys.argv[1:]))
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cmake that writes down what it was told and builds nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "cmake").write_text(NOTES.format(python=sys.executable, notes=str(tmp_path / "notes.json")))
    (folder / "cmake").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    for name in ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "notes.json"


@pytest.fixture
def android_sdk(elf_kit: ModuleType, tmp_path: Path) -> Path:
    """A release for two ABIs that shares the NDK's C++ library."""
    files = {}
    for abi in ("arm64-v8a", "armeabi-v7a"):
        engine = elf_kit.Elf(abi=abi, needed=("libc++_shared.so", "libc.so"), soname="libMNN.so", data=elf_kit.ENGINE)
        files[f"{abi}/libMNN.so"] = engine.bytes()
        files[f"{abi}/libllm.so"] = elf_kit.Elf(abi=abi, needed=("libMNN.so", "libc.so"), soname="libllm.so").bytes()
    (tmp_path / "sdk").mkdir()
    shutil.copytree(TOY / "include", tmp_path / "sdk" / "include")
    header = tmp_path / "sdk" / "include" / "MNN" / "MNNDefine.h"
    header.write_text("")
    folder: Path = elf_kit.write(tmp_path / "sdk", files)
    return folder


@pytest.fixture
def ndk(tmp_path: Path) -> Path:
    root = tmp_path / "ndk"
    for file in (
        "build/cmake/android.toolchain.cmake",
        "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/lib/aarch64-linux-android/libc++_shared.so",
        "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/lib/arm-linux-androideabi/libc++_shared.so",
    ):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(file)
    return root


def test_each_abi_of_a_release_is_built_with_the_ndk_and_gets_its_cxx_library(
    android_sdk: Path, ndk: Path, notes: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert build_runner(android_sdk, ndk, out, quiet) == [out / "arm64-v8a", out / "armeabi-v7a"]
    for folder in out.iterdir():
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["farm_runner", "libMNN.so", "libc++_shared.so", "libllm.so"]
    assert "aarch64-linux-android" in (out / "arm64-v8a" / "libc++_shared.so").read_text()
    told = json.loads(notes.read_text())  # of the last one
    assert {
        f"-DCMAKE_TOOLCHAIN_FILE={ndk / 'build/cmake/android.toolchain.cmake'}",
        "-DANDROID_ABI=armeabi-v7a",
        "-DANDROID_PLATFORM=android-24",
        "-DANDROID_STL=c++_shared",
        f"-DMNN_BUILD_DIR={out / 'armeabi-v7a'}",
        f"-DLLM_INCLUDE={android_sdk / 'include'}",
    } <= set(told)


def test_the_ndk_that_the_environment_names_is_taken(
    android_sdk: Path, ndk: Path, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDROID_NDK_ROOT", str(ndk))
    assert len(build_runner(android_sdk, None, tmp_path / "out", quiet)) == 2
    assert f"-DCMAKE_TOOLCHAIN_FILE={ndk / 'build/cmake/android.toolchain.cmake'}" in json.loads(notes.read_text())


def test_what_is_wrong_with_the_ndk_is_said_before_anything_is_built(
    android_sdk: Path, ndk: Path, notes: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="for arm64-v8a need the Android NDK to build for: name it by --ndk DIR"):
        build_runner(android_sdk, None, tmp_path / "out", quiet)
    with pytest.raises(ConfigError, match=r"is no Android NDK \(build/cmake/android.toolchain.cmake is missing\)"):
        build_runner(android_sdk, tmp_path, tmp_path / "out", quiet)
    shutil.rmtree(ndk / "toolchains")
    with pytest.raises(ConfigError, match=r"has no libc\+\+_shared.so for arm64-v8a"):
        build_runner(android_sdk, ndk, tmp_path / "out", quiet)
    assert not notes.exists()


def test_a_computer_without_cmake_is_told_to_install_it(
    android_sdk: Path, ndk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="cmake is missing: install it"):
        build_runner(android_sdk, ndk, tmp_path / "out", quiet)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        (
            b"-- Configuring\nCMake Error at CMakeLists.txt:59 (message):\n  llm/llm.hpp is not in sdk: build MNN\n"
            b"  with MNN_BUILD_LLM\n\n-- Configuring incomplete\n",
            "llm/llm.hpp is not in sdk: build MNN with MNN_BUILD_LLM",
        ),
        (b"CMake Error: The source directory does not exist.\n", "The source directory does not exist."),
        (
            b"[1/2] x\nFAILED: x.o\nx.cpp:3:1: error: unknown type\nx.cpp:4:1: error: more\n",
            "x.cpp:3:1: error: unknown type",
        ),
        (b"ld.lld: error: undefined symbol: f\n", "ld.lld: error: undefined symbol: f"),
        (b"make: *** [x] Killed\n", "make: *** [x] Killed"),
        (b"\n \n", "it said nothing"),
    ],
)
def test_the_first_error_is_picked_out_of_what_a_build_says(output: bytes, line: str) -> None:
    assert first_error(output) == line


def test_the_runner_without_an_engine_is_built_by_cmake_too(tmp_path: Path) -> None:
    if shutil.which("cmake") is None or shutil.which("cc") is None:
        pytest.skip("cmake and a compiler are not both installed")
    source = data_root() / "device_bins" / "runner"
    for words in (["-S", str(source), "-B", str(tmp_path), "-DFARM_ENGINE=synthetic"], ["--build", str(tmp_path)]):
        subprocess.run(["cmake", *words], check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        [str(tmp_path / "synthetic"), "--model", "m", "--repeats", "0"], capture_output=True, check=True
    )
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["hello", "load", "generation", "end"]
