"""The program's answers as dataclasses. Fields are the keys of `--json`, with their units in their names (docs/cli.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from shardscope import _text
from shardscope._answer import Answer
from shardscope._request import Request
from shardscope.curve import MemoryCurve, read_curve
from shardscope.errors import BadInput


@dataclass(init=False, repr=False, eq=False)
class Accounting(Answer):
    """Where the time of a step goes; the first four sum to it."""

    compute_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    idle_ns: int
    communication_ns: int
    overlap_ns: int
    overlap_share: float


@dataclass(init=False, repr=False, eq=False)
class Memory(Answer):
    """Memory of a device, of one rank."""

    peak_allocated_bytes: int
    peak_active_bytes: int
    peak_reserved_bytes: int
    arena_bytes: int
    outside_bytes: int
    at_operation: str
    at_peak: Mapping[str, int]
    maximum: Mapping[str, int]
    pss_bytes: Optional[int] = None


@dataclass(init=False, repr=False, eq=False)
class Step(Answer):
    """One step: the first, the second or the one that repeats."""

    label: str
    step: int
    step_time_ns: Optional[int]  # None: the run does not get there
    time: Accounting
    memory: Memory


@dataclass(init=False, repr=False, eq=False)
class Unit(Answer):
    """A group of parameters that is gathered and reduced together; "" is the root."""

    unit: str
    compute_ns: int
    communication_ns: int
    exposed_communication_ns: int
    communication_bytes: int


@dataclass(init=False, repr=False, eq=False)
class Collective(Answer):
    """Collectives of a step that are alike."""

    kind: str
    group: str
    ranks: int
    bytes: int
    times: int
    time_ns: int
    algorithm: str
    protocol: str
    channels: int


@dataclass(init=False, repr=False, eq=False)
class ModuleHooks(Answer):
    """Python code that DeepSpeed's stage 3 runs around modules in a step."""

    times: int
    time_ns: int


@dataclass(init=False, repr=False, eq=False)
class OutsideItem(Answer):
    """Memory that the process takes beside its allocator."""

    item: str
    bytes: int
    source: str


@dataclass(init=False, repr=False, eq=False)
class HostMemory(Answer):
    """Model states that are offloaded to the host."""

    per_rank_bytes: int
    at_phase: str
    per_node_bytes: Optional[int] = None


@dataclass(init=False, repr=False, eq=False)
class MemoryAllowance(Answer):
    """Why a predicted memory is not exact: nine of ten runs need at most so much less or more."""

    item: str
    below_bytes: int
    above_bytes: int
    source: str


@dataclass(init=False, repr=False, eq=False)
class OutOfMemory(Answer):
    """The request for memory that fails."""

    step: str
    operation: str
    unit: str
    module: str
    requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    free_bytes: int
    message: str


@dataclass(init=False, repr=False, eq=False)
class PipelineRank(Answer):
    """What one rank of a pipeline does in a step."""

    rank: int
    stages: tuple[int, ...]
    layers: int
    compute_ns: int
    exposed_communication_ns: int
    idle_ns: int
    bubble_share: float
    activations_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int


@dataclass(init=False, repr=False, eq=False)
class Pipeline(Answer):
    """How a pipeline runs; `bubble_share` is idle time of the step, the mean over its ranks."""

    schedule: str
    stages_per_rank: int
    micro_batches: int
    bubble_share: float
    ranks: tuple[PipelineRank, ...]


@dataclass(init=False, repr=False, eq=False)
class Summary(Answer):
    """Time and memory of one run, predicted or profiled."""

    kind: str
    strategy: str
    runtime: str
    world: int
    precision: str
    fits: bool
    fits_word: str
    needs_bytes: int
    step_time_ns: Optional[int]  # these are None where it runs out of memory
    step_time_low_ns: Optional[int]
    step_time_high_ns: Optional[int]
    tokens_per_s: Optional[float]
    tokens_per_s_per_device: Optional[float]
    time: Accounting
    memory: Memory
    assumed: tuple[str, ...] = ()
    device_memory_bytes: Optional[int] = None
    margin_bytes: Optional[int] = None
    wanted_margin_bytes: Optional[int] = None
    memory_low_bytes: Optional[int] = None
    memory_high_bytes: Optional[int] = None  # None where it runs out of memory
    memory_allowances: tuple[MemoryAllowance, ...] = ()
    host_memory: Optional[HostMemory] = None
    mfu_share: Optional[float] = None
    mfu_formula: str = ""
    steps: tuple[Step, ...] = ()
    by_unit: tuple[Unit, ...] = ()
    collectives: tuple[Collective, ...] = ()
    module_hooks: Optional[ModuleHooks] = None
    outside: tuple[OutsideItem, ...] = ()
    out_of_memory: Optional[OutOfMemory] = None
    pipeline: Optional[Pipeline] = None

    def _line(self) -> str:
        step = f"{_text.time_text(self.step_time_ns)} a step ({_text.time_text(self.step_time_low_ns)} to {_text.time_text(self.step_time_high_ns)})"
        if self.out_of_memory is not None:
            step = f"out of memory in step {self.out_of_memory.step}"
        device = f" of {_text.bytes_text(self.device_memory_bytes)}" if self.device_memory_bytes is not None else ""
        fits = {"yes": "fits", "tight": "fits, but is tight", "no": "does not fit"}.get(self.fits_word, self.fits_word)
        return f"{self.runtime} {self.strategy} x{self.world}: {step}, {_text.bytes_text(self.needs_bytes)}{device}, {fits}"


@dataclass(init=False, repr=False, eq=False)
class Prediction(Summary):
    """What `simulate` answers. `json` is the whole object as the program printed it."""

    json: Mapping[str, Any] = field(default_factory=dict, compare=False)
    _request: Optional[Request] = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"Prediction({self._line()})"

    def picture(self, name: str = "memory") -> str:
        """A picture as SVG: "memory" over time, or "streams". The program draws it; the first call runs it again."""
        return self._asked().text(f"figures/{name}.svg")

    def memory_curve(self) -> MemoryCurve:
        """Memory over the steps that are played. The first call runs the program again."""
        return read_curve(self._asked().file("predicted/trace.json.gz"))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Leaves a run folder, as `shardscope simulate -o` does, which `compare` and the desktop application open."""
        self._asked().save(os.fspath(folder))

    def _repr_html_(self) -> str:
        if self.out_of_memory is not None:
            return _text.html_with_picture(repr(self), "", f"<p>{_text.escape(self.out_of_memory.message)}</p>")
        return _text.html_with_picture(repr(self), self.picture())

    def _asked(self) -> Request:
        if self._request is None:
            raise ValueError("this prediction did not come from shardscope.simulate, so that it cannot be asked for more")
        return self._request


@dataclass(init=False, repr=False, eq=False)
class PipelineSettings(Answer):
    """How a place of `plan` is cut into stages."""

    schedule: str
    stages_per_rank: int
    stages: str
    checkpoint: str


@dataclass(init=False, repr=False, eq=False)
class Settings(Answer):
    """What decides on a place of `plan`."""

    runtime: str
    strategy: str
    mesh: str
    blocks_per_unit: int
    prefetch: str
    batch: int
    accumulate: int
    reduce_every_micro_batch: bool
    checkpointing: str
    offload: str
    precision: str
    pipeline: Optional[PipelineSettings] = None


@dataclass(init=False, repr=False, eq=False)
class Candidate(Summary):
    """A way to train that has a place."""

    place: int = 0
    rank: int = 0
    why: Optional[str] = None
    settings: Optional[Settings] = None
    text: str = ""
    needed_memory_bytes: int = 0
    ties_with_best: bool = False
    gpu_hours_per_1e9_tokens: float = 0.0
    price_per_1e9_tokens: Optional[float] = None

    def __repr__(self) -> str:
        return f"Candidate({self.place}. {self.text}: {_text.time_text(self.step_time_ns)} a step, {_text.bytes_text(self.needs_bytes)})"


@dataclass(init=False, repr=False, eq=False)
class Loss(Answer):
    """What a written file cannot say."""

    key: str
    why: str


@dataclass(init=False, repr=False, eq=False)
class Chosen(Answer):
    """The chosen way to train, as a file for the launcher."""

    place: int
    why_not_first: str
    format: str
    file: str
    text: str
    losses: tuple[Loss, ...] = ()


@dataclass(init=False, repr=False, eq=False)
class Excluded(Answer):
    """A strategy without a place."""

    strategy: str
    why: str


@dataclass(init=False, repr=False, eq=False)
class Plan(Answer):
    """What `plan` answers. `given` and the other keys of your own file are in `json`."""

    objective: str
    world: int
    tokens_per_batch: int
    candidates: tuple[Candidate, ...]
    pareto: tuple[int, ...]
    losers: tuple[Excluded, ...]
    dropped: tuple[Excluded, ...]
    remarks: tuple[str, ...]
    advice: tuple[str, ...]
    assumed: tuple[str, ...]
    choices: int
    simulated: int
    interrupted: bool
    elapsed_s: float
    chosen: Optional[Chosen] = None
    json: Mapping[str, Any] = field(default_factory=dict, compare=False)
    _request: Optional[Request] = field(default=None, compare=False)

    @property
    def best(self) -> Optional[Candidate]:
        """The first place; None where nothing fits."""
        return self.candidates[0] if self.candidates else None

    def __repr__(self) -> str:
        if self.best is None:
            return f"Plan(nothing fits on {self.world} ranks: {self.advice[0] if self.advice else ''})"
        return f"Plan({len(self.candidates)} ways on {self.world} ranks, the best: {self.best!r})"

    def picture(self) -> str:
        """Memory over step time of all places, as SVG."""
        return self._request.text("figures/plan.svg") if self._request else ""

    def _repr_html_(self) -> str:
        rows = [(c.place, c.text, _text.time_text(c.step_time_ns), f"{c.tokens_per_s:,.0f}", _text.bytes_text(c.needs_bytes), c.why or "")
                for c in self.candidates]
        table = _text.html_table(("", "strategy", "step time", "tokens/s", "memory", "why not first"), rows)
        return _text.html_with_picture(repr(self), self.picture() if self.candidates else "", table)


@dataclass(init=False, repr=False, eq=False)
class Finding(Answer):
    """What a tool does with a key of a file that the file does not seem to say."""

    rule: str
    severity: str
    file: str
    line: int
    key: str
    message: str
    mend: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        key = f"{self.key}: " if self.key else ""
        return f"{place}: {self.severity}: {key}{self.message} [{self.rule}]"


@dataclass(init=False, repr=False, eq=False)
class Lint(Answer):
    """What `lint` answers."""

    format: str
    findings: tuple[Finding, ...]
    json: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    def __repr__(self) -> str:
        return f"Lint({self.format}: {len(self.errors)} errors, {len(self.warnings)} warnings, {len(self.findings)} findings in all)"

    def _repr_html_(self) -> str:
        rows = [(f.line or "", f.severity, f.key, f.message, f.mend) for f in self.findings]
        return f"<p>{_text.escape(repr(self))}</p>" + _text.html_table(("line", "", "key", "what happens", "fix"), rows)


@dataclass(init=False, repr=False, eq=False)
class OperationPair(Answer):
    """An operation, predicted and profiled."""

    id: int
    name: str
    predicted_ns: int
    profiled_ns: int
    predicted_bytes: int
    profiled_bytes: int


@dataclass(init=False, repr=False, eq=False)
class Pair(Answer):
    """A run's two sides: places in `Comparison.runs`, and errors, (predicted - profiled) / profiled."""

    run: str
    predicted: int
    profiled: int
    peak_error_bytes: int
    operations: tuple[OperationPair, ...]
    step_time_error_share: Optional[float] = None
    peak_error_share: Optional[float] = None


@dataclass(init=False, repr=False, eq=False)
class Run(Summary):
    """One side of a run."""

    run: str = ""


@dataclass(init=False, repr=False, eq=False)
class Comparison(Answer):
    """What `compare` answers of run folders."""

    runs: tuple[Run, ...]
    pairs: tuple[Pair, ...]
    json: Mapping[str, Any] = field(default_factory=dict, compare=False)
    _request: Optional[Request] = field(default=None, compare=False)

    def __repr__(self) -> str:
        texts = [f"{os.path.basename(p.run.rstrip('/'))}: step time {_text.share_text(p.step_time_error_share)}, peak {_text.share_text(p.peak_error_share)}"
                 for p in self.pairs]
        return f"Comparison({'; '.join(texts) if texts else f'{len(self.runs)} runs with one side'})"

    def _repr_html_(self) -> str:
        rows = [(p.run, _text.time_text(self.runs[p.predicted].step_time_ns), _text.time_text(self.runs[p.profiled].step_time_ns),
                 _text.share_text(p.step_time_error_share), _text.share_text(p.peak_error_share)) for p in self.pairs]
        table = _text.html_table(("run", "predicted", "profiled", "error of the step time", "error of the peak"), rows)
        return _text.html_with_picture(repr(self), self._request.text("strategies.svg") if self._request else "", table)


@dataclass(init=False, repr=False, eq=False)
class SideBySide(Answer):
    """A time of both sides; the error is (predicted - profiled) / profiled."""

    predicted_ns: int
    profiled_ns: int
    error_share: Optional[float] = None


@dataclass(init=False, repr=False, eq=False)
class Matched(Answer):
    """How many of a kind have a counterpart."""

    predicted: int
    profiled: int
    matched: int
    confidence: str


@dataclass(init=False, repr=False, eq=False)
class MatchedSteps(Answer):
    """How many steps have a counterpart, and what marks them in the trace."""

    predicted: int
    profiled: int
    matched: int
    by: str


@dataclass(init=False, repr=False, eq=False)
class Match(Answer):
    """Whether everything in the trace has its counterpart in the prediction."""

    complete: bool
    confidence: str
    steps: MatchedSteps
    units: Matched
    collectives: Matched
    compute: Matched


@dataclass(init=False, repr=False, eq=False)
class TracedComparison(Answer):
    """What `compare` answers of a PyTorch run. Errors by unit, of memory and of each rank are in `json`."""

    run: str
    predicted: str
    world: int
    match: Match
    times_comparable: bool
    by_category: Mapping[str, SideBySide]
    assumed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    json: Mapping[str, Any] = field(default_factory=dict, compare=False)
    _request: Optional[Request] = field(default=None, compare=False)

    def __repr__(self) -> str:
        matched = "everything has its counterpart" if self.match.complete else "not everything has its counterpart"
        step = self.by_category.get("step")
        time = f", step time {_text.share_text(step.error_share)}" if step and self.times_comparable else ""
        return f"TracedComparison({self.run}: {matched}, {self.match.collectives.matched} collectives{time})"

    def _repr_html_(self) -> str:
        rows = [(name, _text.time_text(t.predicted_ns), _text.time_text(t.profiled_ns),
                 _text.share_text(t.error_share) if self.times_comparable else "-") for name, t in self.by_category.items()]
        table = _text.html_table(("", "predicted", "profiled", "error"), rows)
        return _text.html_with_picture(repr(self), self._request.text("streams.svg", missing="") if self._request else "", table)


@dataclass(init=False, repr=False, eq=False)
class RankReport(Answer):
    """How a rank spent its time; span = compute + exposed communication + exposed copies + idle."""

    rank: int
    file: str
    span_ns: int
    compute_ns: int
    communication_ns: int
    copy_ns: int
    overlap_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    idle_ns: int
    events: int
    streams: int
    device: Optional[int] = None
    peak_allocated_bytes: Optional[int] = None
    peak_active_bytes: Optional[int] = None
    peak_reserved_bytes: Optional[int] = None


@dataclass(init=False, repr=False, eq=False)
class Report(Answer):
    """What `report` answers. Collectives, idle causes, memory and stragglers are in `json`."""

    definitions: str
    ranks: tuple[RankReport, ...]
    json: Mapping[str, Any] = field(default_factory=dict, compare=False)
    _request: Optional[Request] = field(default=None, compare=False)

    def __repr__(self) -> str:
        if not self.ranks:
            return "Report(memory only)"
        first = self.ranks[0]
        return (f"Report({len(self.ranks)} ranks, rank {first.rank}: {_text.time_text(first.span_ns)} = {_text.time_text(first.compute_ns)} compute + "
                f"{_text.time_text(first.exposed_communication_ns)} exposed communication + {_text.time_text(first.exposed_copy_ns)} exposed copies + "
                f"{_text.time_text(first.idle_ns)} idle)")

    def picture(self) -> str:
        """Streams of the first rank, else memory over time, as SVG."""
        return self._request.text("report.svg") if self._request else ""

    def _repr_html_(self) -> str:
        rows = [(r.rank, _text.time_text(r.span_ns), _text.time_text(r.compute_ns), _text.time_text(r.exposed_communication_ns),
                 _text.time_text(r.exposed_copy_ns), _text.time_text(r.idle_ns)) for r in self.ranks]
        table = _text.html_table(("rank", "span", "compute", "exposed communication", "exposed copies", "idle"), rows)
        try:
            picture = self.picture()
        except BadInput:  # nothing in the trace can be drawn: no device, and no history of memory
            picture = ""
        return _text.html_with_picture(repr(self), picture, table)
