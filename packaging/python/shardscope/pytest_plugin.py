"""A pytest plugin: configurations and plans are checked as tests.

With `--shardscope-lint`, or `shardscope_lint = true` in the ini file, every accelerate, DeepSpeed or Trainer configuration that
`shardscope_configs` names (globs) is a test that fails where lint finds an error whose rule is not in `shardscope_known`.
The fixture `shardscope_fits` is `shardscope.assert_fits` with the options `shardscope_cluster` of the ini file.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from shardscope.answers import Prediction
from shardscope.testing import assert_fits, assert_lints


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("shardscope").addoption("--shardscope-lint", action="store_true", help="lint the files of shardscope_configs as tests")
    parser.addini("shardscope_lint", "lint the files of shardscope_configs as tests", type="bool", default=False)
    parser.addini("shardscope_configs", "configuration files to lint (globs)", type="args", default=[])
    parser.addini("shardscope_known", "rules whose findings are known", type="args", default=[])
    parser.addini("shardscope_model", "the model that the configurations train", default="")
    parser.addini("shardscope_cluster", "cluster of shardscope_fits", default="")


def _is_wanted(config: pytest.Config, path: Path) -> bool:
    if not (config.getoption("--shardscope-lint") or config.getini("shardscope_lint")):
        return False
    root = str(config.rootpath)
    named = (os.path.join(root, pattern) for pattern in config.getini("shardscope_configs"))
    return any(str(path) in glob.glob(pattern, recursive=True) for pattern in named)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not _is_wanted(parent.config, file_path):
        return None
    made: pytest.Collector = ConfigFile.from_parent(parent, path=file_path)
    return made


class ConfigFile(pytest.File):
    """A configuration file, which has one test."""

    def collect(self) -> Iterable[pytest.Item]:
        yield LintItem.from_parent(self, name="shardscope-lint")


class LintItem(pytest.Item):
    def runtest(self) -> None:
        config = self.config
        model = config.getini("shardscope_model")
        question: dict[str, Any] = {"model": os.path.join(str(config.rootpath), model)} if model else {}
        assert_lints(self.path, known=tuple(config.getini("shardscope_known")), **question)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, "shardscope lint"


@pytest.fixture
def shardscope_fits(pytestconfig: pytest.Config) -> Callable[..., Prediction]:
    """`assert_fits`, on the cluster of the ini file unless one is given."""

    def fits(model: object = None, **question: Any) -> Prediction:
        cluster = pytestconfig.getini("shardscope_cluster")
        if cluster:
            question.setdefault("cluster", cluster)
        return assert_fits(model, **question)

    return fits
