"""Nothing of ours runs or lies about on a phone."""

from __future__ import annotations

from harness.core.deadline import Deadline
from harness.core.transport import Transport
from harness.payload.probe import Probe

TIDY_S = 60.0
# Lists the runs below $1: of a cell's own run, and of the steps below it. Where there is none, there is nothing to end
# before all is removed; mostly there is not even a folder.
_TIDY = """
[ -e "$1" ] || [ -e "$2" ] || exit 0
found=$(find "$1" -mindepth 2 -maxdepth 3 -type d -name probe 2>/dev/null)
[ -z "$found" ] || { printf "%s\\n" "$found"; exit 0; }
rm -rf "$1" "$2"
"""


def tidy(transport: Transport, probe: Probe) -> None:
    """End every run of ours on the phone and remove what runs and pushes left there. Only who has the lease may.

    Raises:
        PhoneError: the phone or the connection failed.
    """
    deadline = Deadline(TIDY_S, "tidying up on the phone", transport.name)
    work, incoming = f"{transport.base_dir}/work", f"{transport.base_dir}/incoming"
    listed = transport.shell(["sh", "-c", _TIDY, "sh", work, incoming], deadline=deadline)
    running = listed.stdout.decode("utf-8", "surrogateescape").splitlines() if listed.exit_code == 0 else []
    for folder in running:
        # Refused for a run that never began; one that has ended says so and is done with.
        transport.shell([probe.path, "stop", folder], deadline=deadline)
    if running:
        transport.shell(["rm", "-rf", work, incoming], deadline=deadline)
