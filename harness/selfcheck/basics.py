"""adb and the folder: what every other part of the harness stands on."""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from pathlib import Path

from harness.adb.transport import AdbTransport
from harness.core.errors import AdbFailedError, PhoneLostError
from harness.core.transport import USABLE, PushItem
from harness.selfcheck.result import Check, Finding, NotCheckableError, broken, holds
from harness.selfcheck.subject import Subject, said

_MB = 1024 * 1024
_TRANSFER_S = 60.0
_EVERY_BYTE = bytes(range(256))
# Replaces a file again and again while another shell reads it: each time the one content or the other, never less.
_RENAMES = """
cd "$1" || exit 9
a=aaaaaaaaaaaaaaaa b=bbbbbbbbbbbbbbbb
echo $a >target
( i=0
  while [ $i -lt 40 ]; do
    echo $b >next && mv -f next target && echo $a >next && mv -f next target || echo failed
    i=$((i + 1))
  done
  : >over ) &
reads=0 bad=0
while [ ! -e over ]; do
  c=
  read -r c <target
  [ "$c" = $a ] || [ "$c" = $b ] || bad=$((bad + 1))
  reads=$((reads + 1))
done
wait
echo $reads $bad
"""


def _shell_protocol(subject: Subject) -> Finding:
    if isinstance(subject.transport, AdbTransport):
        try:
            subject.transport.require_features()
        except AdbFailedError as error:
            return broken(error.message)
    return holds("adbd speaks shell protocol v2" if subject.server else "not on adb: a shell of this computer")


def _exit_codes(subject: Subject) -> Finding:
    try:
        result = subject.shell("sh", "-c", "echo to stdout; echo to stderr >&2; exit 7")
    except PhoneLostError as error:
        if subject.transport.state() != USABLE:
            raise
        return broken(f"adb lists the phone as usable, but: {error.message}")
    wanted = (7, b"to stdout\n", b"to stderr\n")
    got = (result.exit_code, result.stdout, result.stderr)
    if got != wanted:
        return broken(f"exit code, stdout and stderr came as {got!r}, not as {wanted!r}")
    return holds("exit code 7, stdout and stderr came apart and whole")


def _folder(subject: Subject) -> Finding:
    try:
        folder = subject.fresh_folder("folder")
    except NotCheckableError as error:
        return broken(str(error))
    text = secrets.token_hex(8)
    script = 'echo "$2" >"$1/file" && cat "$1/file"'
    result = subject.shell("sh", "-c", script, "sh", folder, text)
    if result.exit_code != 0 or result.stdout.strip() != text.encode():
        return broken(f"{folder}: {said(result)}")
    space = subject.text("df", "-k", subject.transport.base_dir).splitlines()[-1:]
    return holds(f"{subject.transport.base_dir} can be written; df -k: {' '.join(space[0].split()) if space else '?'}")


def _bytes(subject: Subject) -> Finding:
    sent = _EVERY_BYTE * (_MB // len(_EVERY_BYTE))
    back = subject.shell("cat", stdin=sent, seconds=_TRANSFER_S).stdout
    if back == sent:
        return holds("1 MiB with every byte value went through a shell and came back the same")
    at = next((i for i, (a, b) in enumerate(zip(sent, back, strict=False)) if a != b), min(len(sent), len(back)))
    seen = back[at : at + 8]
    return broken(f"{len(sent)} bytes went in, {len(back)} came back; they differ from byte {at} on ({seen!r})")


def _program_runs(subject: Subject) -> Finding:
    path, facts = subject.probe.path, subject.facts
    return holds(f"{path} runs, on Linux {facts.kernel} for {facts.machine}")


def _push_and_pull(subject: Subject) -> Finding:
    folder = subject.fresh_folder("transfer")
    content = secrets.token_bytes(_MB) + _EVERY_BYTE
    with tempfile.TemporaryDirectory(prefix="mnn-farm-") as here:
        local, back = Path(here) / "sent", Path(here) / "back"
        local.write_bytes(content)
        deadline = subject.deadline.within(_TRANSFER_S, "pushing and pulling a file")
        subject.transport.push([PushItem(local, f"{folder}/file", 0o640)], deadline=deadline)
        there = subject.probe.hash_tree(folder, _TRANSFER_S).get("file")
        subject.transport.pull(f"{folder}/file", back, deadline=deadline)
        same = back.read_bytes() == content
    wanted = (len(content), hashlib.sha256(content).hexdigest())
    if there != wanted or not same:
        return broken(
            f"pushed {wanted}, on the phone {there}; what was pulled is {'the same' if same else 'different'}"
        )
    return holds(f"{len(content)} bytes: the same SHA-256 here, on the phone and after the pull")


def _file_mode(subject: Subject) -> Finding:
    folder = subject.fresh_folder("mode")
    with tempfile.TemporaryDirectory(prefix="mnn-farm-") as here:
        local = Path(here) / "file"
        local.write_bytes(b"#!/system/bin/sh\n")
        deadline = subject.deadline.within(_TRANSFER_S, "pushing two files")
        items = [PushItem(local, f"{folder}/program", 0o755), PushItem(local, f"{folder}/text", 0o644)]
        subject.transport.push(items, deadline=deadline)
    listed = subject.text("ls", "-l", folder)
    modes = {line.split()[-1]: line.split()[0] for line in listed.splitlines() if len(line.split()) > 4}
    # adbd gives the owner's rights to everybody (file_sync_service.cpp), so only the owner's can be compared.
    owners = {name: mode[1:4] for name, mode in modes.items()}
    if owners != {"program": "rwx", "text": "rw-"}:
        return broken(f"pushed as 755 and 644, on the phone {modes or listed!r}")
    return holds(f"pushed 755 and 644, on the phone {modes['program']} and {modes['text']}")


def _rename(subject: Subject) -> Finding:
    folder = subject.fresh_folder("rename")
    result = subject.shell("sh", "-c", _RENAMES, "sh", folder, seconds=60)
    words = result.stdout.split()
    if result.exit_code != 0 or len(words) != 2 or not all(word.isdigit() for word in words):
        return broken(f"mv over a file that is there failed ({said(result)})")
    reads, bad = map(int, words)
    if bad:
        return broken(f"of {reads} reads while the file was replaced 80 times, {bad} saw it missing or torn")
    return holds(f"replaced 80 times while it was read {reads} times: always one content or the other")


def _lock(subject: Subject) -> Finding:
    file = f"{subject.fresh_folder('lock')}/lease"
    ask = {"host": "selfcheck", "purpose": "selfcheck", "ttl_s": 60}
    first = subject.probe.take_lease(file, owner="first", **ask)  # type: ignore[arg-type]
    if first.state != "taken" or first.holder is None:
        return broken(f"a lock that nobody has is {first.state}")
    try:
        second = subject.probe.take_lease(file, owner="second", **ask)  # type: ignore[arg-type]
    finally:
        after = subject.probe.end_lease(file, first.holder.id)
    if second.state != "held" or after.state != "free":
        return broken(f"taken twice: the second was told {second.state!r}; once given back it is {after.state!r}")
    return holds("a second taker was refused while the first held it, and it was free afterwards")


CHECKS = (
    Check(
        "shell-protocol",
        "adbd speaks shell protocol v2",
        "without it exit codes and stderr are lost, and a failed run looks like a good one",
        "use a phone with Android 7 or later; a vendor's adbd that lacks it cannot be measured",
        _shell_protocol,
        essential=True,
        always=True,
    ),
    Check(
        "exit-codes",
        "a command's exit code, stdout and stderr arrive apart and whole",
        "every step on the phone is judged by them",
        "send us the parcel: this phone's shell or adbd differs from all we know",
        _exit_codes,
        essential=True,
        always=True,
    ),
    Check(
        "bytes",
        "adb alters no byte",
        "payloads, events and logs would be damaged unnoticed",
        "try another cable and port; if it stays, send us the parcel",
        _bytes,
    ),
    Check(
        "folder",
        "our folder can be written",
        "programs, models and events lie there",
        "make room on the phone; if it says read-only, its storage is failing",
        _folder,
        always=True,
    ),
    Check(
        "program-runs",
        "a program of ours in our folder may run",
        "the probe supervises every run from there",
        "the folder is mounted noexec, or the vendor forbids programs of the shell: such a phone cannot be measured",
        _program_runs,
        always=True,
    ),
    Check(
        "push-and-pull",
        "what is pushed lies on the phone unchanged and comes back unchanged",
        "models and programs are trusted by their hash",
        "try another cable and port; if it stays, the storage is failing",
        _push_and_pull,
    ),
    Check(
        "file-mode",
        "a pushed file keeps its permissions",
        "a pushed program must be executable",
        "send us the parcel: we would have to run chmod on this phone",
        _file_mode,
    ),
    Check(
        "rename",
        "mv over an existing file never shows half a file",
        "payloads are pushed aside and moved into place whole",
        "send us the parcel: the store would need another way on this file system",
        _rename,
    ),
    Check(
        "lock",
        "flock works in our folder",
        "the phone's lease is such a lock: without it two computers measure each other",
        "use one computer at a time with this phone, and send us the parcel",
        _lock,
    ),
)
