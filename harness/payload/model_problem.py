"""What can be wrong with a model folder or a bundle, one finding each."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.reasons import Reason
from harness.payload.bundle_checks import BUNDLE_CHECKS

#: How to go on with a file that is not whole: whatever brought it has to bring it again.
GET_AGAIN = "export or download the model again"

#: Every check by its name, which does not change, and what it found; ``docs/models.md`` holds the same table.
CHECKS = {
    "no_model": "there is no such folder, or no model of that name",
    "file_missing": "a file that the engine reads is not there",
    "file_empty": "a file has no content",
    "file_unreadable": "a file cannot be read",
    "file_outside": "a name in the configuration leads out of the folder",
    "file_unnamed": "the configuration names no file where it must",
    "lfs_pointer": "a file is the Git LFS pointer to itself",
    "config_unreadable": "a configuration is no JSON object, or its numbers do not fit",
    "setting_unknown": "backend_type, precision, memory, power or thread_num is nothing that MNN knows",
    "graph_unreadable": "a graph is no whole MNN graph",
    "weights_short": "a weight file ends before what the graph reads",
    "weights_other": "the weight file does not have the graph's layers where they should be",
    "weights_long": "the weight file goes on behind all that is read from it",
    "embedding_short": "the embedding is cut off or has fewer rows than the graph has tokens",
    "tokenizer_unreadable": "the tokenizer is no whole MNN tokenizer",
    "tokenizer_too_big": "the tokenizer knows more tokens than the model",
    "tokenizer_too_small": "the tokenizer knows far fewer tokens than the model",
    "special_id_beyond": "a special token is beyond the model's tokens",
    "special_word_unknown": "the chat template's first or last word is no token",
    "graph_too_big": "a graph is larger than MNN can read",
    "file_other": "the model is not the one that the record beside it tells of",
    "sample_unfit": "a sample or what is expected of it cannot be read, or does not fit the model",
    "engine_too_old": "the engine does not know something that the model has",
    "engine_older_than_model": "the model was exported by a newer MNN than the engine",
    "does_not_fit": "the model needs more memory than there is",
    "pin_differs": "a file is not as it was when the model was pinned",
    "pin_unreadable": "the pin itself is broken",
}


@dataclass(frozen=True)
class Problem:
    """One finding.

    Attributes:
        check: which of :data:`CHECKS` or, for a bundle, of ``BUNDLE_CHECKS`` found it.
        detail: which file and what about it.
        fix: what to do.
        warning: it is suspicious, but what is right may look like this.
        reason: with which a run ends that wants to use the model or the bundle.
    """

    check: str
    detail: str
    fix: str = GET_AGAIN
    warning: bool = False
    reason: Reason = Reason.MODEL_INCOMPLETE

    def __post_init__(self) -> None:
        if self.check not in CHECKS and self.check not in BUNDLE_CHECKS:
            raise ValueError(f"no check is called {self.check!r}")

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


def markdown_table() -> str:
    """Return the documentation's table of checks."""
    rows = ["| check | what was found |", "| --- | --- |", *(f"| `{name}` | {says} |" for name, says in CHECKS.items())]
    return "\n".join(rows) + "\n"
