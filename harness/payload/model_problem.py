"""What can be wrong with a model folder, one finding each."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.reasons import Reason

#: How to go on with a file that is not whole: whatever brought it has to bring it again.
GET_AGAIN = "export or download the model again"


@dataclass(frozen=True)
class Problem:
    """One finding.

    Attributes:
        check: stable name of the check that found it, e.g. ``weights_short``; the page of the command line lists them.
        detail: which file and what about it.
        fix: what to do.
        warning: it is suspicious, but a model that is right may look like this.
        reason: with which a run ends that wants to use the model.
    """

    check: str
    detail: str
    fix: str = GET_AGAIN
    warning: bool = False
    reason: Reason = Reason.MODEL_INCOMPLETE

    @property
    def severity(self) -> str:
        """``error`` or ``warning``."""
        return "warning" if self.warning else "error"

    def to_json(self) -> dict[str, str]:
        """Return the finding as ``mnn-farm models verify --json`` prints it."""
        return {
            "code": self.reason.code,
            "check": self.check,
            "severity": self.severity,
            "detail": self.detail,
            "fix": self.fix,
        }
