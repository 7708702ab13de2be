"""What a climb has in its hands: each rung adds something to it that the next one needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar, overload

from harness.bench.context import RunContext
from harness.bench.limits import model_config
from harness.bench.phone import ConnectedPhone
from harness.bench.session import PhoneSession
from harness.bench.target import target_of
from harness.core.errors import HarnessError, PhoneError
from harness.core.provider import Endpoint
from harness.core.transport import Transport
from harness.diagnose.asked import Request, Say
from harness.diagnose.nearest import LEVELS, Room
from harness.diagnose.setting import Setting
from harness.payload.bundle import Bundle
from harness.payload.bundle_manifest import Target
from harness.payload.models import ModelFolder
from harness.payload.probe import Probe

_CONTEXT_KEY = "max_position_embeddings"


_Value = TypeVar("_Value")


class Brought(Generic[_Value]):
    """What a rung brings for those above it. Whoever asks before that has the rungs in the wrong order."""

    def __init__(self, since: str) -> None:
        self.__doc__ = f"It is there {since}."

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, subject: None, owner: type) -> Brought[_Value]: ...
    @overload
    def __get__(self, subject: object, owner: type) -> _Value: ...
    def __get__(self, subject: object | None, owner: type) -> Brought[_Value] | _Value:
        if subject is None:
            return self
        try:
            value: _Value = vars(subject)[self._name]
        except KeyError:
            raise HarnessError(f"a rung wants the {self._name} before another rung brought it") from None
        return value

    def __set__(self, subject: object, value: _Value) -> None:
        vars(subject)[self._name] = value


@dataclass
class Subject:
    """One phone, model and bundle under diagnosis.

    Attributes:
        request: what was asked for.
        run_id, run_dir: the run folder that takes the records.
        say: tells what happens meanwhile.
        endpoint: the phone, ``None`` where it cannot be reached, for the reason ``unreachable``.
        warm: what a rung saw of heat or scarce memory that did not break it.
    """

    request: Request
    run_id: str
    run_dir: Path
    say: Say
    endpoint: Endpoint | None = None
    unreachable: PhoneError | None = None
    warm: list[str] = field(default_factory=list)

    model = Brought[ModelFolder]("once it is known to be whole")
    transport = Brought[Transport]("once the phone answered")
    probe = Brought[Probe]("once it runs there")
    phone = Brought[ConnectedPhone]("once it is ours and its facts are known")
    bundle = Brought[Bundle]("once it is known to fit")
    session = Brought[PhoneSession]("which runs cells; its context has the plan of the latest one")

    def has(self, name: str) -> bool:
        """Whether a rung brought that."""
        return name in vars(self)

    @property
    def context(self) -> RunContext:
        """What the session's cells have in common."""
        return self.session.context

    @property
    def target(self) -> Target:
        """What of the phone decides which files it gets."""
        return target_of(self.phone.facts)

    @property
    def engine_version(self) -> str | None:
        """The engine's version as far as it is known before it runs."""
        manifest = self.bundle.manifest
        return manifest.engine_version or (self.phone.facts.python_mnn if manifest.needs_python_mnn else None)

    @property
    def base(self) -> Setting:
        """The simplest setting: the model's own configuration on one thread of the CPU."""
        config = model_config(self.model)
        precision, memory = (
            value if (value := config.get(name)) in LEVELS else "low" for name in ("precision", "memory")
        )
        return Setting(precision=precision, memory=memory, prompt_tokens=self.request.sizes.prompt_tokens)

    @property
    def cores(self) -> int:
        """How many threads can compute at once; a plan takes up to 64."""
        return max(1, min(64, self.phone.facts.cores))

    @property
    def context_tokens(self) -> int | None:
        """How many tokens the model can hold, where its configuration tells."""
        longest = model_config(self.model).get(_CONTEXT_KEY)
        return longest if type(longest) is int and longest > 0 else None

    @property
    def room(self) -> Room:
        """Within what settings can be varied here."""
        facts, offered = self.phone.facts, self.bundle.backends(self.target)
        drivers = {"cpu": True, "opencl": facts.opencl != "", "vulkan": facts.vulkan != ""}
        mapped = model_config(self.model).get("use_mmap") is True
        return Room(self.cores, tuple(name for name in offered if drivers.get(name)), mapped)
