"""All that is known of one attempt of a cell, and the record that is made of it, however far the attempt came."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import harness
from harness.bench import record as make
from harness.bench.backend import backend_proof
from harness.bench.context import RunContext, cell_config, cell_id_of
from harness.bench.crash import Crash, Ran
from harness.bench.evidence import Evidence, Objection
from harness.bench.fit import remarks_on_engine
from harness.bench.heat import thermal_of
from harness.bench.phone import ConnectedPhone
from harness.bench.said import output_of
from harness.bench.tensor_record import tensor_metrics_of, tensor_output_of, tensor_samples_of
from harness.bench.triaged import texts_of, triaged
from harness.core.errors import FarmError
from harness.core.ids import iso, utc_now
from harness.core.reasons import Fault, Verdict
from harness.payload.bundle import Bundle
from harness.payload.models import ModelFolder
from harness.plan.matrix import PlannedCell
from harness.runners.events import RunnerLog
from harness.store.runfolder import RunFolder
from harness.store.schema import AbBlock, AdbInfo, BundleInfo, CellConfig, CellRecord, Finding, ModelInfo, Sample


@dataclass
class Account:
    """One attempt of one cell.

    Attributes:
        raw: the folder of raw output, once something was run.
        evidence: what the run left, once it ended.
        notes: what happened besides and does not decide, e.g. that the phone was lost and came back.
        ran: what was done on the phone, for who wants to repeat it.
        crash: what was collected when it went wrong.
    """

    phone: ConnectedPhone
    context: RunContext
    cell: PlannedCell
    raw: Path | None = None
    evidence: Evidence | None = None
    notes: list[Finding] = field(default_factory=list)
    ran: Ran = field(default_factory=Ran)
    crash: Crash | None = None
    started: datetime = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        self._clock = time.monotonic()
        self.folder = RunFolder(self.context.run_dir)
        self.number = 1 + self.folder.attempts_of(self.cell_id)

    @property
    def model(self) -> ModelFolder:
        """The model folder of the cell."""
        return self.context.models[self.cell.model]

    @property
    def bundle(self) -> Bundle:
        """The device binaries that this phone gets."""
        return self.context.bundle_for(self.phone.facts, self.cell)

    @property
    def config(self) -> CellConfig:
        """What is asked of the engine."""
        return cell_config(self.cell, self.context.plan, self.phone.facts.cpu_clusters, model=self.model)

    @property
    def cell_id(self) -> str:
        """The id of the cell on this phone."""
        return cell_id_of(self.phone.identity.id, self.model, self.bundle, self.config)

    def note(self, code: str, title: str, *, warning: bool = False) -> None:
        """Keep what happened besides."""
        self.notes.append(Finding(code=code, severity="warning" if warning else "info", title=title[:500]))

    def raw_dir(self) -> Path:
        """Return the folder for raw output, which is made when it is first asked for."""
        if self.raw is None:
            self.raw = self.folder.raw_dir(self.cell_id, self.number)
        return self.raw

    def take_over(self) -> None:
        """Go on with what a process that is dead left of this attempt: its raw output, if it came so far."""
        left = self.folder.raw_path(self.cell_id, self.number)
        self.raw = left if left.is_dir() else None

    def drop_raw(self) -> None:
        """Remove the raw output of an attempt that the disk did not take, which makes room for its record."""
        if self.raw is not None:
            shutil.rmtree(self.raw, ignore_errors=True)
        self.raw = None

    def record(self, objections: Sequence[Objection]) -> CellRecord:
        """Return the record; the first objection decides, none means ``ok``."""
        nulls = dict(make.ALWAYS_NULL)
        nulls.update(self.phone.nulls)
        told = self.evidence.told if self.evidence is not None else RunnerLog()
        decisive = objections[0] if objections else None
        sections = self._sections(nulls)
        if self.raw is None:
            nulls["raw"] = "nothing was run"
        return CellRecord(
            run_id=self.context.run_id,
            cell_id=self.cell_id,
            attempt=self.number,
            started=iso(self.started),
            elapsed_s=round(time.monotonic() - self._clock, 3),
            harness_version=harness.__version__,
            adb=self._adb(nulls),
            phone=self.phone.info,
            model=self._model(nulls),
            bundle=self._bundle(told, nulls),
            config=self.config,
            verdict=decisive.reason.verdict if decisive else Verdict.OK,
            reason=decisive.reason.code if decisive else None,
            fault=Fault(decisive.reason.fault) if decisive else None,
            detail=decisive.detail if decisive else "",
            samples=self._samples(),
            findings=(*make.findings_of(objections), *self._causes(decisive), *self._remarks(), *self.notes),
            nulls=nulls,
            raw=self.folder.relative(self.raw) if self.raw is not None else None,
            ab=self._ab(),
            **sections,
        )

    def _ab(self) -> AbBlock | None:
        block = self.cell.block
        return None if block is None else AbBlock(pair=block.pair, arm=block.arm, block=block.number, blocks=block.of)

    def _causes(self, decisive: Objection | None) -> tuple[Finding, ...]:
        """Return what the logs say about a fault of the product."""
        if decisive is None or self.evidence is None or decisive.reason.fault is not Fault.PRODUCT:
            return ()
        return self.crash.causes if self.crash is not None else triaged(texts_of(self.evidence))

    def _remarks(self) -> tuple[Finding, ...]:
        if self.evidence is None:
            return ()
        remarks = make.remarks_of(self.evidence)
        manifest, hello = self.bundle.manifest, self.evidence.told.hello
        if manifest.engine != "MNN":  # its versions say nothing about models
            return remarks
        version = (hello.engine_version if hello is not None else None) or manifest.engine_version
        return (*remarks, *remarks_on_engine(self.model, version))

    def _samples(self) -> tuple[Sample, ...]:
        if self.evidence is None:
            return ()
        return tensor_samples_of(self.evidence) if self.cell.tensor else make.samples_of(self.evidence)

    def _sections(self, nulls: dict[str, str]) -> dict[str, Any]:
        sections: dict[str, Any] = {"backend": None, "metrics": None, "thermal": None, "output": None}
        if self.evidence is not None:
            sections["backend"] = backend_proof(self.evidence)
            metrics_of = tensor_metrics_of if self.cell.tensor else make.metrics_of
            sections["metrics"] = metrics_of(self.evidence, nulls)
            sections["thermal"] = thermal_of(self.evidence, self.phone.facts, nulls)
            sections["output"] = (
                tensor_output_of(self.evidence, nulls)
                if self.cell.tensor
                else output_of(self.evidence, self.context.plan, nulls)
            )
        for name, value in sections.items():
            if value is None:
                nulls[name] = "it never ran" if self.raw is None else "the run ended before it was known"
        if sections["backend"] is not None and sections["backend"].actual is None:
            nulls["actual"] = "the runner could not tell"
        return sections

    def _adb(self, nulls: dict[str, str]) -> AdbInfo:
        try:
            server = self.phone.transport.server
            missing = "this phone is not on adb"
        except FarmError as error:
            server, missing = None, str(error)
        if server is None:
            nulls["server"] = nulls["version"] = missing
        return AdbInfo(server=server[0] if server else None, version=server[1] if server else None)

    def _model(self, nulls: dict[str, str]) -> ModelInfo:
        tensors = self.model.tensor
        if self.model.quant_bits is None:
            nulls["quant_bits"] = "the model folder does not tell"
        return ModelInfo(
            name=self.model.name,
            hash=self.model.folder.hash,
            weight_bytes=self.model.weight_bytes,
            quant_bits=self.model.quant_bits,
            pinned=self.model.pinned,
            stored=tensors.weights.value if tensors is not None else None,
            source=tensors.source if tensors is not None else None,
        )

    def _bundle(self, told: RunnerLog, nulls: dict[str, str]) -> BundleInfo:
        manifest = self.bundle.manifest
        version = told.hello.engine_version if told.hello is not None else None
        if version is None:
            nulls["engine_version"] = "the runner told no version"
        return BundleInfo(
            name=manifest.name,
            hash=self.bundle.hash,
            engine=manifest.engine,
            engine_version=version,
            runner=self.bundle.runner,
        )
