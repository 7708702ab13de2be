"""Android's thermal status, asked of a phone before and after each run.

Never during one: ``dumpsys`` starts a process and has ``system_server`` and the vendor's thermal part work, some tens
of milliseconds of a core that belongs to what is measured. The status follows the skin, which needs minutes to cool, so
the one right after a run is as high as any during its last minute; zones and clocks, which the probe reads without
asking anybody, tell what happened before.
"""

from __future__ import annotations

from harness.core.deadline import Deadline
from harness.core.errors import PhoneError
from harness.core.log import phone_logger
from harness.core.transport import Transport
from harness.phone.thermalservice import Status, parse_thermalservice

ASK_S = 10.0


def read_status(transport: Transport) -> Status:
    """Ask for the status. A phone that cannot be asked costs only this figure."""
    argv = ["dumpsys", "thermalservice"]
    try:
        answer = transport.shell(argv, deadline=Deadline(ASK_S, "asking the thermal service", transport.name))
    except PhoneError as error:
        phone_logger(__name__, transport.name).info("the thermal status could not be read: %s", error)
        return Status(None, f"the thermal service could not be asked: {error}")
    if b"Can't find service" in answer.stdout + answer.stderr:
        return Status(None, "this Android has no such service")
    told = parse_thermalservice(answer.stdout)
    if told.overridden:
        return Status(None, "somebody set the thermal status by hand")
    return Status(told.status, told.nulls.get("status", ""))
