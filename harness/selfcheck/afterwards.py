"""What is left on the phone when all is over."""

from __future__ import annotations

from harness.selfcheck.result import Check, Finding, NotCheckableError, broken, holds
from harness.selfcheck.subject import Subject

# Every process whose command line names our folder. The folder comes by stdin, or this script would find itself.
_OURS = r"""
read -r folder
for file in /proc/[0-9]*/cmdline; do
  words=$(tr '\0' ' ' <"$file" 2>/dev/null)
  case $words in *"$folder"*) echo "$file $words" ;; esac
done
"""


def _same_boot(subject: Subject) -> Finding:
    before, now = subject.facts.boot_id, subject.probe.facts().boot_id
    if not before or not now:
        raise NotCheckableError("the phone does not tell its boot id")
    if before != now:
        return broken("the phone restarted during the check")
    return holds("the phone did not restart during the check")


def _nothing_left(subject: Subject) -> Finding:
    found = subject.shell("sh", "-c", _OURS, stdin=f"{subject.transport.base_dir}/\n".encode(), seconds=60)
    processes = [line for line in found.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    folder = subject.shell("ls", "-d", subject.work)
    if processes:
        return broken(f"{len(processes)} process(es) of ours still run: {processes[0].strip()[:200]}")
    if folder.exit_code == 0:
        return broken(f"{subject.work} is still there")
    return holds("no process of ours runs; our work folder is gone")


CHECKS = (
    Check(
        "same-boot",
        "the phone goes through this without restarting",
        "a phone that restarts by itself cannot be measured",
        "look at its power and its heat; send us the parcel",
        _same_boot,
    ),
    Check(
        "nothing-left",
        "nothing of ours runs on afterwards",
        "a leftover would heat the phone and slow the next run",
        "restart the phone, and send us the parcel",
        _nothing_left,
        always=True,
    ),
)
