"""Checks for unit tests and CI."""

from __future__ import annotations

from typing import Any

from shardscope import _text
from shardscope.answers import Lint, Prediction
from shardscope.errors import DoesNotFit
from shardscope.verbs import lint, simulate


def _in_time(prediction: Prediction, max_step_time_s: float | None) -> str | None:
    if max_step_time_s is None or prediction.step_time_ns is None or prediction.step_time_ns <= max_step_time_s * 1e9:
        return None
    return f"a step takes {_text.time_text(prediction.step_time_ns)}, longer than {max_step_time_s:g} s"


def assert_fits(model: object = None, *, tight: bool = False, max_step_time_s: float | None = None, **question: Any) -> Prediction:
    """Fails unless the training fits the device's memory, with the margin that should stay free.

    Takes what `shardscope.simulate` takes. With `tight`, it may leave less than the margin. `max_step_time_s` bounds the step time.
    """
    __tracebackhide__ = True
    prediction = simulate(model, **question)
    if not prediction.fits or (prediction.fits_word == "tight" and not tight):
        failed = prediction.out_of_memory
        raise DoesNotFit(f"{prediction!r}" + (f": {failed.message}" if failed else ""))
    late = _in_time(prediction, max_step_time_s)
    if late:
        raise DoesNotFit(f"{prediction!r}: {late}")
    return prediction


def assert_lints(file: object, *, known: tuple[str, ...] = (), warnings: bool = False, **question: Any) -> Lint:
    """Fails where `lint` finds an error (with `warnings`: or a warning) whose rule is not among `known`."""
    __tracebackhide__ = True
    answer = lint(file, **question)
    severities = ("error", "warning") if warnings else ("error",)
    new = [finding for finding in answer.findings if finding.severity in severities and finding.rule not in known]
    if new:
        raise AssertionError("\n".join(f"{finding}\n    fix: {finding.mend}" for finding in new))
    return answer
