"""Public bug reports, read in place: the first finding's kind, its cause and its advice in substance."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.commands.triage_judge import judged_entries
from harness.triage.triage import Source, triage

CASES = Path(__file__).parents[4] / "shared" / "cases"

# file: words that title and cause must have, and words that the advice must have (any case, "|" is or).
EXPECTED = {
    "01_opencl_backend_not_registered": (
        "OpenCL not registered type 0",
        "backend=cpu MNN_OPENCL=ON MNN_SEP_BUILD=OFF libMNN_CL.so",
    ),
    "02_vulkan_hidden_from_adb_shell": ("Vulkan gpuCount shell CPU", "backend=cpu app"),
    "03_mali_llvm_cannot_select": ("compiler aborted LLVM|select model", "driver commit newer CPU unsupported"),
    "05_opencl_cache_grows_no_speedup": ("cache grows session slow", "size two runs delete tuning upgrade"),
    "06_cold_cache_first_run": ("first cache harmless tuning", "warm-up first-token commit driver model"),
    "07_attention_op_unsupported": ("Attention Android host", "MNN_SUPPORT_TRANSFORMER_FUSE=ON flags"),
    "09_model_newer_than_engine": ("newer llmexport libllm.so logits_index", "libllm.so commit exported"),
    "11_mmap_compute_shape_error": ("use_mmap=true shape tuned|tuning error state Omni", '"use_mmap": false'),
    "13_ld_library_path_missing": ("libllama.so not found LD_LIBRARY_PATH", "LD_LIBRARY_PATH= NEEDED"),
    "15_sigill_on_first_prompt": ("illegal instruction CPU", "features build rebuild newer 3.0.4"),
    "17_bench_eos_inflates_speed": ("not real EOS divided tokens", "count 3954 reject"),
    "18_bench_decode_variance": ("spread prefill sampling EOS", "greed coefficient of variation tokens"),
    "21_repeated_token_opencl": ("token opencl", "CPU mllm.backend_type=cpu invalid"),
    "22_garbled_low_precision_opencl": ("opencl low half", "precision=high CPU wrong family"),
    "23_cl_minus36_after_output": ("queue -36 text complete", "flag process context newer"),
    "25_lmkd_memory_pressure": ("ran out of memory low-memory killer killed", "MemAvailable KV cache context lmkd"),
    "27_thread_cliff_beyond_big_cores": ("threads fast cores 4 0.26 best with 3", "sweep cap pin never default"),
    "29_opencl_namespace_blocked": (
        "namespace libOpenCL.so adb shell app",
        "uses-native-library public.libraries.txt separately",
    ),
    "31_thermal_decay": ("throttling clocks software", "first median last cool cap"),
    "32_adb_device_offline": ("offline no test", "infra reconnect kill-server quarantine"),
    "33_adb_device_unauthorized": ("key no command", "dialog adbkey skip user container"),
    "34_adb_server_version_mismatch": ("two adb 41 39 server drops", "pin adbutils versions runs"),
    "36_push_no_space_but_summary_ok": ("push failed space 1 file pushed", "df size hash ignore"),
    "37_sync_push_to_directory": ("folder FAIL reason sync.push", "full path size"),
    "38_exit_code_lost": ("failed on the phone 0 old shell protocol", "marker missing lost connection"),
    "41_xdist_worker_died": ("worker died failed PASSED", "disk attempt --max-worker-restart=0 controller"),
}


def test_every_case_has_an_expectation() -> None:
    if not CASES.is_dir():
        pytest.skip(f"no {CASES} on this computer")
    assert {path.stem for path in CASES.glob("*.txt")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_first_finding_is_the_expected_diagnosis(name: str) -> None:
    path = CASES / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"no {path} on this computer")
    head, evidence = path.read_text(encoding="utf-8").split("\n---\n", 1)
    kind = next(line.removeprefix("kind: ") for line in head.splitlines() if line.startswith("kind: "))
    first = triage([Source.of_text(path.name, evidence)], judges=(judged_entries,))[0]
    assert first.code == kind
    diagnosis, advice = EXPECTED[name]
    assert _missing(diagnosis, f"{first.title} {first.cause}") == []
    assert _missing(advice, " ".join(first.advice)) == []
    assert all(one.text in evidence.replace("\t", " ") or one.text == "" for one in first.evidence)


@pytest.mark.parametrize("change", ["crlf", "utf16", "quoted", "indented"])
def test_how_a_text_was_copied_changes_nothing(change: str) -> None:
    """Line ends and encoding of Windows, quotation marks of a mail, a code block's indentation."""
    if not CASES.is_dir():
        pytest.skip(f"no {CASES} on this computer")
    for path in sorted(CASES.glob("*.txt")):
        evidence = path.read_text(encoding="utf-8").split("\n---\n", 1)[1]
        lines = evidence.splitlines()
        changed = {
            "crlf": "\r\n".join(lines).encode(),
            "utf16": evidence.encode("utf-16"),
            "quoted": "\n".join(f"> {line}" for line in lines).encode(),
            "indented": "\n".join(f"    {line}" for line in lines).encode(),
        }[change]
        first, told = (triage([Source.of_text("x", text)], judges=(judged_entries,))[0] for text in (evidence, changed))
        assert (told.rule, told.title) == (first.rule, first.title), path.stem


def _missing(words: str, text: str) -> list[str]:
    told = text.lower()
    return [word for word in words.split() if not any(part.lower() in told for part in word.split("|"))]
