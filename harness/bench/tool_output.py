"""What MNN's own tools printed in a cell, held against the rules by which ``mnn-farm judge`` believes a tool."""

from __future__ import annotations

from collections.abc import Iterator

from harness.bench.asked import Asked
from harness.bench.believe import believe
from harness.bench.evidence import Evidence, Objection
from harness.store.schema import Finding

# How much repeats may spread is the plan's own rule, over all generations.
_ANY_SPREAD = float("inf")
# Runners that are not called like their tools.
_TOOLS = {"modulebasic": "ModuleBasic", "mnnv2basic": "MNNV2Basic", "benchmark": "benchmark.out"}


def tool_output_is_believed(evidence: Evidence) -> Iterator[Objection]:
    """What ``judge`` would refuse is refused in a cell, too: the tools end with 0 after nearly every failure."""
    told, end = evidence.told, evidence.run.end
    if told.hello is None or not told.tool:
        return
    asked = Asked(
        tool=_TOOLS.get(told.hello.runner, told.hello.runner),
        backends=(evidence.cell.backend,),
        exit_code=end.exit_code if end is not None else None,
    )
    # A warm run goes on with the kernels that its cold start compiled, and says nothing of them.
    compiled = evidence.cold.compiled if evidence.cold is not None else ""
    belief = believe(b"\n".join((told.tool, compiled.encode(), evidence.run.stderr)), asked, _ANY_SPREAD)
    reason = belief.whole.reason
    if reason is not None:
        yield Objection(reason, f"{told.hello.runner}: {belief.whole.detail}", belief.whole.evidence)


def definition_of(evidence: Evidence) -> Iterator[Finding]:
    """Yield how the tool defines its figures, so that nobody compares them with others' unawares."""
    if evidence.told.definition and evidence.measured:
        yield Finding(code="definition", severity="info", title=evidence.told.definition[:500])
