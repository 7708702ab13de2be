"""Android around a run: who is killed first, how large a page is, whether its log can be read."""

from __future__ import annotations

import secrets
import time

from harness.selfcheck.result import Check, Finding, NotCheckableError, broken, holds
from harness.selfcheck.subject import Subject, said

# What AOSP's adbd gives to all it starts (shell_service.cpp): lmkd, which looks from 0 up, never picks it.
_AOSP_OOM_ADJ = -950
_PAGE_SIZES = (4096, 16384)
_TAG = "mnn-farm-check"
_LOG_TRIES, _LOG_PAUSE_S = 10, 0.2


def _oom_adj(subject: Subject) -> Finding:
    text = subject.text("cat", "/proc/self/oom_score_adj")
    if not text.lstrip("-").isdigit():
        raise NotCheckableError("/proc/self/oom_score_adj cannot be read")
    value = int(text)
    if value > 0:
        return broken(f"oom_score_adj of what adb starts is {value}: lmkd kills it before the phone's own", value=value)
    usual = "as on AOSP" if value == _AOSP_OOM_ADJ else f"AOSP has {_AOSP_OOM_ADJ}"
    return holds(f"oom_score_adj of what adb starts is {value} ({usual})", value=value)


def _page_size(subject: Subject) -> Finding:
    size = subject.facts.page_size
    if size not in _PAGE_SIZES:
        return broken(f"a page has {size} bytes; known are {', '.join(map(str, _PAGE_SIZES))}", page_size=size)
    return holds(f"a page has {size} bytes, and static programs run on it", page_size=size)


def _selinux(subject: Subject) -> Finding:
    mode = subject.text("getenforce")
    if not mode:
        raise NotCheckableError("getenforce does not tell")
    if mode != "Enforcing":
        return broken(f"SELinux is {mode}: what runs here may be refused on phones that people buy", mode=mode)
    return holds("SELinux is Enforcing, as on phones that people buy", mode=mode)


def _logcat(subject: Subject) -> Finding:
    mark = secrets.token_hex(8)
    subject.shell("log", "-t", _TAG, mark)
    for _ in range(_LOG_TRIES):
        result = subject.shell("logcat", "-d", "-s", f"{_TAG}:V")
        if mark.encode() in result.stdout:
            return holds("a line that we logged came back out of logcat")
        time.sleep(_LOG_PAUSE_S)  # logd takes lines in its own time
    return broken(f"a line that we logged is not in logcat ({said(result)})")


CHECKS = (
    Check(
        "oom-adj",
        "what adb starts is not killed before the phone's own processes",
        "else a run dies where an app would live",
        "read out_of_memory of this phone with care, and send us the parcel",
        _oom_adj,
    ),
    Check(
        "page-size",
        "a page of memory has 4096 or 16384 bytes",
        "programs are linked for these",
        "send us the parcel",
        _page_size,
    ),
    Check(
        "selinux",
        "SELinux is enforcing",
        "a permissive phone allows what others refuse",
        "this is a development build: do not compare its figures with others",
        _selinux,
    ),
    Check(
        "logcat",
        "the shell may read the phone's log",
        "crashes and lmkd's kills are explained from there",
        "on this phone a crash will lack its reason; send us the parcel",
        _logcat,
    ),
)
