"""mypy --strict of the package, and of a script that uses it. Skipped where mypy is absent."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(os.environ["SHARDSCOPE_SOURCES"]) / "packaging/python"

SCRIPT = """
import shardscope

prediction = shardscope.simulate("model", runtime="fsdp2", world=8, cluster="h100_sxm", precision="bf16_mixed")
total: int = prediction.memory.at_peak["parameters_bytes"] + prediction.needs_bytes
best = shardscope.plan("model", cluster="h100_sxm", tokens_per_batch=65536).best
name: str = best.settings.strategy if best is not None and best.settings is not None else ""
errors: tuple[shardscope.Finding, ...] = shardscope.lint("fsdp.yaml").errors
complete: bool = shardscope.compare(trace="theirs").match.complete
share: float | None = shardscope.compare("runs/a", "runs/b").pairs[0].step_time_error_share
with shardscope.recorded("runs/x") as run:
    pass
comparison: shardscope.TracedComparison | None = run.comparison
callback = shardscope.ShardscopeCallback("runs/x")
"""
WRONG = 'import shardscope\nstep: str = shardscope.simulate("model").step_time_ns\n'


@unittest.skipIf(importlib.util.find_spec("mypy") is None, "mypy is absent")
class Types(unittest.TestCase):
    def mypy(self, *arguments):
        with tempfile.TemporaryDirectory() as cache:
            return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, *arguments], cwd=PACKAGE, text=True,
                                  capture_output=True, env={**os.environ, "MYPYPATH": str(PACKAGE)})

    def test_the_package_is_clean(self):
        done = self.mypy("--config-file", "pyproject.toml", "-p", "shardscope", "-p", "shardscope_gui")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_script_has_types(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, code in ((SCRIPT, 0), (WRONG, 1)):
                path = pathlib.Path(folder) / "script.py"
                path.write_text(text)
                done = self.mypy("--config-file", "pyproject.toml", str(path))
                self.assertEqual(done.returncode, code, done.stdout)


if __name__ == "__main__":
    unittest.main()
