"""Python imports this at its start where `shardscope record` put it on PYTHONPATH."""
import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _import_the_other_one():
    """The sitecustomize that this one hides."""
    others = [path for path in sys.path if os.path.abspath(path or ".") != _here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if "SHARDSCOPE_RECORD" in os.environ:
    import shardscope_recorder

    shardscope_recorder.start()
_import_the_other_one()
