"""Predicts memory and step time of sharded training, and compares them with real runs.

    import shardscope
    prediction = shardscope.simulate("path/to/model", runtime="fsdp2", world=8, batch=4, seq=2048,
                                     precision="bf16_mixed", cluster="h100_sxm")
    prediction.fits, prediction.step_time_ns, prediction.needs_bytes

Everything is computed by the program `shardscope`, which the wheel carries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardscope._version import __version__

if TYPE_CHECKING:
    from shardscope.answers import Candidate, Comparison, Finding, Lint, Plan, Prediction, Report, Summary, TracedComparison
    from shardscope.curve import MemoryCurve
    from shardscope.errors import BadInput, DoesNotFit, NotFinite, OutsideFailure, RankLost, ShardscopeError
    from shardscope.testing import assert_fits, assert_lints
    from shardscope.training import Recorded, ShardscopeCallback, recorded
    from shardscope.verbs import compare, lint, plan, report, simulate

__all__ = [
    "BadInput", "Candidate", "Comparison", "DoesNotFit", "Finding", "Lint", "MemoryCurve", "NotFinite", "OutsideFailure", "Plan",
    "Prediction", "RankLost", "Recorded", "Report", "ShardscopeCallback", "ShardscopeError", "Summary", "TracedComparison",
    "__version__", "assert_fits", "assert_lints", "compare", "lint", "plan", "recorded", "report", "simulate",
]

# Each module is read when a name of it is first used, so that an import costs next to nothing.
_MODULES = {
    "answers": ("Candidate", "Comparison", "Finding", "Lint", "Plan", "Prediction", "Report", "Summary", "TracedComparison"),
    "curve": ("MemoryCurve",),
    "errors": ("BadInput", "DoesNotFit", "NotFinite", "OutsideFailure", "RankLost", "ShardscopeError"),
    "testing": ("assert_fits", "assert_lints"),
    "training": ("Recorded", "ShardscopeCallback", "recorded"),
    "verbs": ("compare", "lint", "plan", "report", "simulate"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'shardscope' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"shardscope.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
