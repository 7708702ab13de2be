"""``dumpsys meminfo``: the whole phone's, or one process's by number or name.

Columns and footers follow the release: ``Rss`` came with Android 11, footers with ``TOTAL PSS`` too; before that the
summary ends with ``TOTAL``. What runs here are native programs, so rows of the Java heap are 0 or missing, and the heap
columns, which a program must tell itself, are 0.
"""

from __future__ import annotations

import os

from .store import Store

_RSS_SDK = 30


def status_table(pid: int, proc: str = "/proc") -> dict[str, int]:
    """Return the kB lines of a process's ``status``; empty when it is gone."""
    try:
        with open(f"{proc}/{pid}/status", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            lines = file.read().split("\n")
    except OSError:
        return {}
    rows = (line.partition(":") for line in lines if line.endswith(" kB"))
    return {key: int(value.split()[0]) for key, _, value in rows}


def program(pid: int, proc: str = "/proc") -> str:
    """Return how a process calls itself: its first word, as the activity manager shows native ones."""
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return file.read().split(b"\0")[0].decode("utf-8", "replace")
    except OSError:
        return ""


def processes(proc: str = "/proc") -> dict[int, str]:
    """Return all processes that have a command line."""
    pids = sorted(int(name) for name in os.listdir(proc) if name.isdigit())  # noqa: PTH208
    return {pid: name for pid in pids if (name := program(pid, proc))}


def find(word: str, running: dict[int, str]) -> tuple[int, str] | None:
    """Return the process that a number or a name means."""
    if word.isdigit():
        name = running.get(int(word))
        return (int(word), name) if name is not None else None
    for pid, name in running.items():
        if word in (name, name.rpartition("/")[2]):
            return pid, name
    return None


def dump(store: Store, arguments: list[str], proc: str = "/proc") -> list[str]:
    """Return the lines of ``dumpsys meminfo [PID|NAME]``."""
    words = [word for word in arguments if not word.startswith("-")]
    with open(f"{proc}/uptime", encoding="ascii") as file:  # noqa: PTH123
        uptime = int(float(file.read().split()[0]) * 1000)
    head = ["Applications Memory Usage (in Kilobytes):", f"Uptime: {uptime} Realtime: {uptime}", ""]
    running = processes(proc)
    if not words:
        return [*head, *_whole_phone(running, proc)]
    found = find(words[0], running)
    if found is None:
        return [f"No process found for: {words[0]}"]
    pid, name = found
    return [*head, f"** MEMINFO in pid {pid} [{name}] **", *one_process(status_table(pid, proc), store.sdk)]


def one_process(status: dict[str, int], sdk: int) -> list[str]:
    """Return table and summary of one process from its ``status``. Pss is taken as Rss: nothing here is shared."""
    anon, file = status.get("RssAnon", 0), status.get("RssFile", 0) + status.get("RssShmem", 0)
    stack, swap = min(status.get("VmStk", 0), anon), status.get("VmSwap", 0)
    heap = anon - stack
    with_rss = sdk >= _RSS_SDK
    gap, total = ("      Rss", "    Total") if with_rss else ("", "")
    line = "   ------" * (8 if with_rss else 7)
    rows = [
        ("Native Heap", heap, heap, 0, swap, heap, (0, 0, 0)),
        ("Stack", stack, stack, 0, 0, stack, None),
        (".so mmap", file, 0, file, 0, file, None),
        ("Unknown", 0, 0, 0, 0, 0, None),
        ("TOTAL", anon + file + swap, anon, file, swap, anon + file, (0, 0, 0)),
    ]
    lines = [
        f"                   Pss  Private  Private  SwapPss{gap}     Heap     Heap     Heap",
        f"                 Total    Dirty    Clean    Dirty{total}     Size    Alloc     Free",
        " " * 13 + line,
    ]
    for name, pss, dirty, clean, swapped, rss, heaps in rows:
        numbers = [pss, dirty, clean, swapped, *([rss] if with_rss else []), *(heaps or ())]
        lines.append(f"{name:>13}" + "".join(f"{number:>9}" for number in numbers))
    lines += ["", " App Summary"]
    summary = [("Java Heap", 0, 0), ("Native Heap", heap, heap), ("Code", file, file), ("Stack", stack, stack)]
    summary += [("Graphics", 0, 0), ("Private Other", 0, 0), ("System", swap, 0)]
    if with_rss:
        lines += ["                       Pss(KB)                        Rss(KB)"]
        lines += ["                        ------                         ------"]
        lines += [f"{name + ':':>21}{pss:>9}{rss:>31}" for name, pss, rss in summary]
        lines += ["", f"{'TOTAL PSS:':>21}{anon + file + swap:>9}{'TOTAL RSS:':>22}{anon + file:>9}"
                  f"{'TOTAL SWAP PSS:':>22}{swap:>9}"]  # fmt: skip
    else:
        lines += ["                       Pss(KB)", "                        ------"]
        lines += [f"{name + ':':>21}{pss:>9}" for name, pss, _ in summary]
        lines += ["", f"{'TOTAL:':>21}{anon + file + swap:>9}{'TOTAL SWAP PSS:':>22}{swap:>9}"]
    return [*lines, " "]


def _whole_phone(running: dict[int, str], proc: str) -> list[str]:
    def kb(number: int) -> str:
        return f"{number:,}K"

    sizes = sorted(
        ((status_table(pid, proc).get("VmRSS", 0), pid, name) for pid, name in running.items()), reverse=True
    )
    lines = ["Total PSS by process:"]
    lines += [f"{kb(size):>13}: {name} (pid {pid})" for size, pid, name in sizes]
    table: dict[str, int] = {}
    with open(f"{proc}/meminfo", encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            key, _, value = line.partition(":")
            if value.strip():
                table[key] = int(value.split()[0])
    used = table["MemTotal"] - table["MemAvailable"]
    return [
        *lines,
        "",
        f"Total RAM: {kb(table['MemTotal']):>12} (status normal)",
        f" Free RAM: {kb(table['MemAvailable']):>12} ({kb(table['Cached']):>12} cached kernel + "
        f"{kb(table['MemFree']):>12} free)",
        f" Used RAM: {kb(used):>12}",
        f"     ZRAM: {kb(table['SwapTotal'] - table['SwapFree']):>12} physical used for "
        f"{kb(table['SwapTotal'] - table['SwapFree']):>12} in swap ({kb(table['SwapTotal']):>12} total swap)",
    ]
