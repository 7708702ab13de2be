"""What the descriptions of phones are made of: the strict base of their tables, and texts that are safe on a phone."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

# getprop's script and the banner both carry these, so no separators, quotes or control characters.
Text = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 ._:/,+()-]+$", max_length=91)]
Token = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$", max_length=64)]
PhonePath = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9_*-][A-Za-z0-9_.*-]*)+$")]
VendorPath = Annotated[str, StringConstraints(pattern=r"^/(vendor|system)(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$")]


class Part(BaseModel):
    """A table of a description: frozen, no unknown keys, no guessed types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
