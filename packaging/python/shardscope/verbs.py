"""The verbs: each runs the program with --json and gives its answer as a dataclass."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, TypeVar, Union, overload

from shardscope import _program
from shardscope._models import Files, Inputs, Path, Step, model_file, settings_file
from shardscope._reading import read
from shardscope._request import Request
from shardscope.answers import Comparison, Lint, Plan, Prediction, Report, TracedComparison

Option = Union[str, int, float, bool, None]
Answer = TypeVar("Answer")
DONE_OR_NO = (0, 1)  # exit codes that come with an answer: yes, and no
DONE_NO_OR_INTERRUPTED = (0, 1, 130)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _arguments(options: Mapping[str, Option]) -> list[str]:
    """world=8 as --world 8; None is left out, True is the option alone."""
    words: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words += [_flag(name)] if value is True else [f"{_flag(name)}={value}"]
    return words


def _named(value: Optional[Path]) -> Optional[str]:
    return None if value is None else os.fspath(value)


def _precision(options: Mapping[str, Option]) -> Optional[str]:
    value = options.get("precision")
    return value if isinstance(value, str) else None


def _files_of(files: Files, **settings: object) -> dict[str, Option]:
    return {name: None if value is None else settings_file(value, name, files) for name, value in settings.items()}


def simulate(model: object = None, *, strategy: Optional[str] = None, cluster: Optional[Path] = None, runtime: Optional[str] = None,
             world: Optional[int] = None, batch: Optional[int] = None, seq: Optional[int] = None, accelerate: object = None,
             deepspeed: object = None, training_arguments: object = None, job: Optional[Path] = None, recording: Optional[Path] = None,
             inputs: Inputs = None, loss: Optional[Callable[[Any], Any]] = None, **options: Option) -> Prediction:
    """Predicts time and memory of one strategy.

    `model` is a folder, a file, a torch.nn.Module (on the meta device, too) or a config of transformers. `accelerate`, `deepspeed` and
    `training_arguments` are files, dicts or objects. Every other option of `shardscope simulate --help` may be given, with _ for -:
    `precision="bf16_mixed"`, `tokens_per_batch=65536`. Raises ShardscopeError; a run that does not fit is an answer.

    A module that is no model of transformers needs `inputs`: what its forward is given, as tensors or as texts ("int64[B,T]"; B and T are
    `batch` and `seq`), in a list or by name. `loss` computes the loss from what it returns. Without it, the loss is its `loss`, a scalar
    that it returns, or the mean of its first tensor.
    """
    files = Files()
    step = Step(inputs, loss, (batch or 1,), seq, _precision(options))
    given: dict[str, Option] = {"model": None if model is None else model_file(model, files, step), "strategy": strategy,
                                "cluster": _named(cluster), "runtime": runtime, "world": world, "batch": batch, "seq": seq,
                                "job": _named(job), "recording": _named(recording)}
    given |= _files_of(files, accelerate=accelerate, deepspeed=deepspeed, training_arguments=training_arguments)
    arguments = _arguments({**given, **options})
    answer = _program.ask("simulate", arguments, DONE_OR_NO)
    prediction = read(Prediction, answer, "simulate")
    return _with(prediction, answer, Request("simulate", tuple(arguments), DONE_OR_NO, keep=(files,)))


def plan(model: object, *, cluster: Optional[Path] = None, tokens_per_batch: int, seq: Optional[int] = None,
         world: Optional[int] = None, runtime: Union[str, Sequence[str], None] = None, strategy: Union[str, Sequence[str], None] = None,
         accelerate: object = None, deepspeed: object = None, inputs: Inputs = None, loss: Optional[Callable[[Any], Any]] = None,
         batches: Sequence[int] = (1, 2, 4), **options: Option) -> Plan:
    """Ranks the ways to train `model`, says why, and writes the best one (`Plan.chosen.text`).

    `tokens_per_batch` is the tokens of one optimizer step of all ranks. Every other option of `shardscope plan --help` may be given.
    `inputs` and `loss` are those of `simulate`. A module that is no model of transformers is weighed with micro-batches of `batches`.
    """
    files = Files()
    step = Step(inputs, loss, tuple(batches), seq, _precision(options))
    given: dict[str, Option] = {"model": model_file(model, files, step), "cluster": _named(cluster), "tokens_per_batch": tokens_per_batch,
                                "seq": seq, "world": world, "runtime": _joined(runtime), "strategy": _joined(strategy)}
    given |= _files_of(files, accelerate=accelerate, deepspeed=deepspeed)
    arguments = _arguments({**given, **options})
    request = Request("plan", tuple(arguments), DONE_OR_NO, keep=(files,))
    answer = _program.ask("plan", [*arguments, "-o", request.folder()], DONE_OR_NO)
    return _with(read(Plan, answer, "plan"), answer, request)


def lint(file: object, *, model: object = None, world: Optional[int] = None, **options: Option) -> Lint:
    """Says what the real tools ignore, override or refuse in a configuration: a file, a dict or TrainingArguments."""
    files = Files()
    given: dict[str, Option] = {"model": None if model is None else model_file(model, files), "world": world}
    answer = _program.ask("lint", [settings_file(file, "config", files), *_arguments({**given, **options})], DONE_OR_NO)
    return _with(read(Lint, answer, "lint"), answer, None)


@overload
def compare(*runs: Path, trace: None = None, **options: Option) -> Comparison: ...
@overload
def compare(*runs: Path, trace: Union[Path, Sequence[Path]], predicted: Optional[Path] = None, cluster: Optional[Path] = None,
            **options: Option) -> TracedComparison: ...
def compare(*runs: Path, trace: Union[Path, Sequence[Path], None] = None, predicted: Any = None, cluster: Any = None,
            **options: Option) -> Union[Comparison, TracedComparison]:
    """Compares run folders, predicted and profiled; or, with `trace`, traces of a PyTorch run with the prediction of its settings.json."""
    given = _arguments({"predicted": _named(predicted), "cluster": _named(cluster), **options})
    if trace is None:
        folders = [os.fspath(run) for run in runs]
        answer = _program.ask("compare", [*folders, *given], DONE_OR_NO)
        return _with(read(Comparison, answer, "compare"), answer, Request("compare", (*folders, *given), DONE_OR_NO))
    traces = [os.fspath(trace)] if isinstance(trace, (str, os.PathLike)) else [os.fspath(one) for one in trace]
    arguments = [*(os.fspath(run) for run in runs), "--trace", *traces, *given]
    answer = _program.ask("compare", arguments, DONE_OR_NO)
    return _with(read(TracedComparison, answer, "compare"), answer, Request("compare", tuple(arguments), DONE_OR_NO))


def report(trace: Path, **options: Option) -> Report:
    """Reports on a trace of any tool: where the time went, collectives, memory."""
    arguments = [os.fspath(trace), *_arguments(options)]
    answer = _program.ask("report", arguments)
    return _with(read(Report, answer, "report"), answer, Request("report", tuple(arguments), output="report.svg"))


def _joined(names: Union[str, Sequence[str], None]) -> Optional[str]:
    return names if names is None or isinstance(names, str) else ",".join(names)


def _with(answer: Answer, json: Mapping[str, Any], request: Optional[Request]) -> Answer:
    """The answer with the object that it was read from, and how to ask for more."""
    answer.__dict__["json"] = json
    if request is not None:
        answer.__dict__["_request"] = request
    return answer
