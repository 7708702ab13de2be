"""Findings over several texts: order, suppression, evidence combined, values of phones made harmless."""

from __future__ import annotations

from harness.commands.triage_judge import judged_entries
from harness.core.reasons import Fault
from harness.triage.entry import Evidence
from harness.triage.finding import Finding, worst
from harness.triage.triage import Source, triage


def found(*texts: str) -> tuple[Finding, ...]:
    return triage([Source.of_text(f"f{n}", text) for n, text in enumerate(texts)], judges=(judged_entries,))


KILLED = "load model\nKilled\n"
LMKD = (
    "05-05 10:00:00.000  500  500 I lowmemorykiller: Kill 'com.example.a' (77), uid 10001, oom_score_adj 900 to free "
    "1000kB rss, 0kB swap; reason: low watermark is breached and swap is low (1kB < 2kB)\n"
)


def test_what_one_file_tells_is_explained_by_another() -> None:
    (finding,) = found(KILLED, LMKD)
    assert (finding.rule, finding.code, finding.fault) == ("killed_under_pressure", "out_of_memory", Fault.PRODUCT)
    assert {(one.source, one.line) for one in finding.evidence} == {("f0", 2), ("f1", 1)}
    assert "low watermark is breached" in finding.cause


def test_alone_each_says_less() -> None:
    assert [(one.rule, one.severity) for one in found(KILLED)] == [("killed_word", "error")]
    assert [(one.rule, one.severity) for one in found(LMKD)] == [("lmkd_cached", "info")]


def test_an_abort_is_explained_by_the_linker_before_it() -> None:
    linker = 'CANNOT LINK EXECUTABLE "./x": library "libMNN.so" not found: needed by main executable'
    assert [one.rule for one in found(f"{linker}\nAborted\nexit code: 134\n")] == ["library_missing"]


def test_errors_come_before_warnings_and_warnings_before_what_is_harmless() -> None:
    text = "Load Cache file error.\nThermal Status: 3\nSegmentation fault\n"
    told = found(text)
    assert [one.severity for one in told] == ["error", "warning", "info"]
    assert worst(told) == "error"
    assert worst(()) is None


def test_sigill_is_sharper_with_the_phones_features() -> None:
    fatal = "F/libc: Fatal signal 4 (SIGILL), code 1 (ILL_ILLOPC), fault addr 0x7a in tid 6 (x), pid 6 (x)\n"
    old = "Features\t: fp asimd evtstrm aes crc32 cpuid\n"
    new = "Features\t: fp asimd aes crc32 fphp asimdhp cpuid asimddp sha512 sve i8mm bf16\n"
    assert [one.rule for one in found(fatal, old)] == ["sigill_feature"]
    assert [one.rule for one in found(fatal, new)] == ["sigill"]


def test_what_a_phone_printed_cannot_move_a_terminal_nor_fill_a_page() -> None:
    name = "A" * 500 + "\x1b[2J\x07"
    (finding,) = found(f'library "{name[:190]}\x1b[2J\x07.so" not found\n' * 50)
    told = finding.title + finding.cause + "".join(finding.advice) + "".join(one.text for one in finding.evidence)
    assert not any(char in told for char in "\x1b\x07")
    assert len(finding.title) <= 300
    assert len(finding.evidence) <= 6


def test_a_finding_as_json_has_the_interfaces_keys_and_no_other() -> None:
    (finding,) = found("Killed\n")
    told = finding.as_json()
    assert list(told) == ["code", "severity", "fault", "title", "evidence", "cause", "advice"]
    assert told["evidence"] == [{"source": "f0", "line": 1, "text": "Killed"}]
    assert finding.evidence == (Evidence("f0", 1, "Killed"),)


def test_lines_that_belong_together_stand_near_each_other_or_do_not_count() -> None:
    other = "padding\n" * 3
    text = "# backend=opencl precision=low text=garbled\n" + other + "# backend=opencl precision=high text=ok\n"
    assert found(text)[0].rule == "garbled_low_gpu"
