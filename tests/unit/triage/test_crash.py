"""The reader of native crashes: Android 8 to 16, in every log format, processes interleaved, gdb."""

from __future__ import annotations

import io

import pytest

from harness.triage.entry import read_entry
from harness.triage.readers.crash import NEEDLES, Crash, CrashReader, Frame
from harness.triage.scan import Scanner

MNN = "libMNN.so (MNN::Session::resize()+24)"


def crashes(text: str) -> list[Crash]:
    reader = CrashReader()
    for found in Scanner(NEEDLES).scan(io.BytesIO(text.encode())):
        reader.take(read_entry(found.raw, "log", found.number, "text"))
    return reader.crashes


BLOCK = """\
*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***
Build fingerprint: 'maker/phone/phone:14/AB1A.240101.001/1234567:user/release-keys'
Revision: '0'
ABI: 'arm64'
Timestamp: 2024-05-05 10:00:00.100000000+0200
Process uptime: 7s
Cmdline: ./llm_demo config.json prompt.txt
pid: 8123, tid: 8130, name: llm_demo  >>> ./llm_demo <<<
uid: 2000
tagged_addr_ctrl: 0000000000000001 (PR_TAGGED_ADDR_ENABLE)
signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0000000000000010 (read)
Cause: null pointer dereference
    x0  0000000000000000  x1  0000007612a56048  x2  0000007612a56060  x3  0000007612a2301c
    lr  00000074fb3c5d18  sp  0000007fea48a950  pc  00000074fb3c5868  pst 0000000080001000
4 total frames
backtrace:
  NOTE: Function names and BuildId information is missing for some frames due
      #00 pc 000000000004b1a0  /apex/com.android.runtime/lib64/bionic/libc.so (memcpy+160) (BuildId: 0a0b)
      #01 pc 00000000001cf3f8  /data/local/tmp/q/libMNN.so (MNN::Session::resize()+24) (BuildId: 0c0d0e)
      #02 pc 0000000000005f88  /data/local/tmp/q/llm_demo
      #03 pc 000000000006b25c  /apex/com.android.runtime/lib64/bionic/libc.so (__libc_init+124) (BuildId: 0a0b)

      #00 pc 0000000000000001  /other/thread.so
"""
FORMATS = {
    "bare": "{text}",
    "threadtime": "05-05 10:00:00.100  8200  8200 F DEBUG   : {text}",
    "year, zone and uid": "2024-05-05 10:00:00.100 +0200  8200  8200 F DEBUG   : {text}",
    "time": "05-05 10:00:00.100 F/DEBUG   ( 8200): {text}",
    "brief": "F/DEBUG   ( 8200): {text}",
    "tag": "F/DEBUG: {text}",
    "studio": "2024-05-05 10:00:00.100 8200-8200/? A/DEBUG: {text}",
    "new studio": "2024-05-05 10:00:00.100  8200-8200  DEBUG                   pid-8200          A  {text}",
    "quoted": "> {text}",
    "grep": "(standard input):17:05-05 10:00:00.100  8200  8200 F DEBUG   : {text}",
}


@pytest.mark.parametrize("form", FORMATS)
def test_a_block_is_read_in_every_format_of_a_log(form: str) -> None:
    text = "\n".join(FORMATS[form].format(text=line) for line in BLOCK.splitlines())
    (crash,) = crashes(text)
    assert (crash.signal, crash.code, crash.address) == ("SIGSEGV", "SEGV_MAPERR", "0x0000000000000010")
    assert (crash.pid, crash.process, crash.thread, crash.abi) == (8123, "./llm_demo", "llm_demo", "arm64")
    assert crash.causes == ["null pointer dereference"]
    assert crash.frames == [
        Frame(0, "/apex/com.android.runtime/lib64/bionic/libc.so", "memcpy", "0a0b", "000000000004b1a0"),
        Frame(1, "/data/local/tmp/q/libMNN.so", "MNN::Session::resize()", "0c0d0e", "00000000001cf3f8"),
        Frame(2, "/data/local/tmp/q/llm_demo", None, None, "0000000000005f88"),
        Frame(3, "/apex/com.android.runtime/lib64/bionic/libc.so", "__libc_init", "0a0b", "000000000006b25c"),
    ]
    assert (crash.owner, crash.top, crash.stands_on_mnn) == ("mnn", crash.frames[1], True)


def test_libcs_own_line_and_debuggerds_block_are_one_crash() -> None:
    fatal = (
        "05-05 10:00:00.000  8123  8130 F libc    : Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x10 "
        "in tid 8130 (llm_demo), pid 8123 (llm_demo)\n"
    )
    block = "".join(f"05-05 10:00:00.100  8200  8200 F DEBUG   : {line}\n" for line in BLOCK.splitlines())
    (crash,) = crashes(fatal + block)
    assert (crash.process, len(crash.frames), crash.lines[0].line) == ("./llm_demo", 4, 1)


def test_a_log_that_was_filtered_has_the_stack_without_its_head() -> None:
    (crash,) = crashes(
        "2025-01-02 10:00:00.000 8123-8130 libc     com.x.chat   A  Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), "
        "fault addr 0x58 in tid 8130 (Thread-9), pid 8123 (com.x.chat)\n"
        "2025-01-02 10:00:00.300 8200-8200 DEBUG    crash_dump64 A        #00 pc 00000000000747fc  "
        "/data/app/x/lib/arm64/libllm.so (Llm::load()+12) (BuildId: 0c)\n"
        "2025-01-02 10:00:00.300 8200-8200 DEBUG    crash_dump64 A        #01 pc 0000000000001000  "
        "/data/app/x/lib/arm64/libchat.so (BuildId: 0d)\n"
    )
    assert (crash.signal, crash.address, crash.owner, len(crash.frames)) == ("SIGSEGV", "0x58", "mnn", 2)


def test_two_processes_that_write_in_turns_are_two_crashes() -> None:
    one = [f"05-05 10:00:00.100  8200  8200 F DEBUG   : {line}" for line in BLOCK.splitlines()]
    other = [
        line.replace(" 8200 ", " 9200 ").replace("8123", "9123").replace(MNN, "libGLES_mali.so (clFinish+24)")
        for line in one
    ]
    told = crashes("\n".join(line for pair in zip(one, other, strict=True) for line in pair))
    assert [(crash.pid, crash.owner, len(crash.frames)) for crash in told] == [(8123, "mnn", 4), (9123, "driver", 4)]


def test_android_8_has_other_columns_and_no_build_ids() -> None:
    (crash,) = crashes(
        "ABI: 'arm'\npid: 31, tid: 32, name: Thread 4  >>> com.example.chat <<<\n"
        "signal 6 (SIGABRT), code -6 (SI_TKILL), fault addr --------\n"
        "Abort message: 'no memory'\n"
        "    r0 00000000  r1 00000020\n\nbacktrace:\n"
        "    #00 pc 0004a1b2  /system/lib/libc.so (abort+62)\n"
        "    #01 pc 00012345  /data/app/com.example.chat-1/lib/arm/libllm.so (offset 0x1000) (_ZN3MNN1fEv+8)\n"
    )
    assert (crash.signal, crash.address, crash.abort, crash.abi) == ("SIGABRT", "--------", "no memory", "arm")
    assert crash.top == Frame(1, "/data/app/com.example.chat-1/lib/arm/libllm.so", "_ZN3MNN1fEv", None, "00012345")


def test_a_stack_of_gdb_tells_the_drivers_library() -> None:
    (crash,) = crashes(
        "#0  __pthread_kill_implementation (threadid=1, signo=6) at ./nptl/pthread_kill.c:44\n"
        "#4  0x0000fffff5b8db40 in ?? () from /usr/lib/aarch64-linux-gnu/libmali.so.1\n"
        "#5  0x0000fffff5b8db44 in ?? () from /usr/lib/libMNN.so\n"
    )
    assert (crash.owner, crash.stands_on_mnn) == ("driver", True)


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/data/local/tmp/libMNN_CL.so", "mnn"),
        ("/data/app/~~x==/base.apk!libmnnllmapp.so", "mnn"),
        ("/vendor/lib64/libOpenCL_adreno.so", "driver"),
        ("/vendor/lib64/libllvm-qcom.so", "driver"),
        ("/vendor/lib64/egl/libGLES_mali.so", "driver"),
        ("/vendor/lib/libPVROCL.so", "driver"),
        ("/vendor/lib64/hw/vulkan.samsung.so", "driver"),
        ("/vendor/lib64/libQnnHtp.so", "npu"),
        ("/apex/com.android.art/lib64/libart.so", "java"),
        ("/data/app/x/lib/arm64/libchat.so", "app"),
        ("/data/app/x/base.apk!libllm_inference_engine_jni.so", "app"),
        ("librnllama_v8.so", "app"),
        ("libllm.so", "mnn"),
        ("libc.so", "unknown"),
        ("[vdso]", "unknown"),
        ("/system/lib64/libbinder.so", "system"),
        ("/system/lib64/libc.so", "unknown"),
        ("/apex/com.android.runtime/bin/linker64", "unknown"),
    ],
)
def test_a_frames_owner_is_told_by_its_library(path: str, owner: str) -> None:
    assert Frame(0, path).owner == owner


@pytest.mark.parametrize(
    ("line", "signal", "code", "address"),
    [
        ("Crashed: Thread : SIGILL  0x0000000071a2c0e0", "SIGILL", None, "0x0000000071a2c0e0"),
        ("SIGSEGV 0x0000000000000010", "SIGSEGV", None, "0x0000000000000010"),
        ("SIGSEGV(SEGV_ACCERR)", "SIGSEGV", "SEGV_ACCERR", None),
        ("Reason:Signal:SIGABRT(SI_TKILL)@0x0207000000001a2b from:8123:10020044", "SIGABRT", "SI_TKILL", None),
    ],
)
def test_what_crash_services_show_is_a_crash(line: str, signal: str, code: str | None, address: str | None) -> None:
    (crash,) = crashes(f"{line}\n#00 pc 0x2c0e4 libMNN.so\n")
    assert (crash.signal, crash.code, crash.address, crash.owner) == (signal, code, address, "mnn")


def test_a_number_of_a_signal_in_another_sentence_is_no_crash() -> None:
    assert crashes("SIGSEGV is sent by the kernel\nhandler of SIGABRT (see signal(7))\n") == []


@pytest.mark.parametrize(
    ("line", "path", "function", "build_id"),
    [
        ("  #00  pc 0x0000000000061a30  /data/app/x/b.apk!libMNN.so (f(int)+8)", "b.apk!libMNN.so", "f(int)", None),
        ("#00 0x000000000004d10c /data/app/x/lib/arm64/libMNN.so (_Z1fv+8)", "libMNN.so", "_Z1fv", None),
        ("#00 pc 0004d10c /data/app/x/libMNN.so (f+20) [arm64-v8a::0a0b0c]", "libMNN.so", "f", None),
        ("#00 pc 0004d10c /data/app/x/libMNN.so [armeabi-v7a]", "libMNN.so", None, None),
        ("#00 pc 0004d10c  base.apk!libMNN.so (f+20) (BuildId: 0a0b0c)", "base.apk!libMNN.so", "f", "0a0b0c"),
    ],
)
def test_frames_of_play_ndk_stack_and_crash_services(
    line: str, path: str, function: str | None, build_id: str | None
) -> None:
    (crash,) = crashes(f"signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x10\n{line}\n")
    (frame,) = crash.frames
    assert (frame.path.endswith(path), frame.function, frame.build_id) == (True, function, build_id)


@pytest.mark.parametrize(
    ("line", "function"),
    [
        ("#03 pc 00000000002b1c08 MNN::Session::run(int)+212", "MNN::Session::run(int)"),
        (
            "#03 pc 00000000002b1c08 MNN::Session::run(int) const at /src/core/Session.cpp:44",
            "MNN::Session::run(int) const",
        ),
        ("7 #03 pc 002b1c08 /data/app/x/lib/arm/libMNN.so (MNN::f()+2) [armeabi-v7a]", "MNN::f()"),
        ("#03 pc 002b1c08  /data/app/x/[libMNN.so](http://libmnn.so/) (MNN::f()+2)", "MNN::f()"),
    ],
)
def test_frames_without_a_library_or_with_a_trackers_links(line: str, function: str) -> None:
    (crash,) = crashes(f"SIGSEGV(SEGV_MAPERR)\n{line}\n")
    assert (crash.owner, crash.function) == ("mnn", function)


def test_a_block_without_a_threads_name_is_read() -> None:
    (crash,) = crashes("pid: 0, tid: 931 >>> com.example.chat <<<\n#00  pc 0x000000000008  /data/app/x/libchat.so\n")
    assert (crash.process, crash.thread, crash.owner) == ("com.example.chat", None, "app")


def test_the_function_is_the_first_that_the_library_names() -> None:
    (crash,) = crashes(
        "signal 11 (SIGSEGV), code 2 (SEGV_ACCERR), fault addr 0x7b1000\n"
        "#00 pc 0000000000201a14  /data/app/x/lib/arm64/libMNN.so\n"
        "#01 pc 00000000001a2c40  /data/app/x/lib/arm64/libMNN.so (MNN::CV::ImageProcess::convert()+96)\n"
        "#02 pc 0000000000003a40  /data/app/x/lib/arm64/libchat.so (look+8)\n"
    )
    assert crash.function == "MNN::CV::ImageProcess::convert()"
