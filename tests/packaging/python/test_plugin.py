"""The pytest plugin and the examples of CI, over the real program. Skipped where pytest is absent."""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCES = pathlib.Path(os.environ["SHARDSCOPE_SOURCES"])


@unittest.skipIf(importlib.util.find_spec("pytest") is None, "pytest is absent")
class Plugin(unittest.TestCase):
    def pytest(self, folder, *arguments):
        return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "shardscope.pytest_plugin", "-p", "no:cacheprovider", *arguments],
                              cwd=folder, capture_output=True, text=True)

    def project(self, folder, config, ini=""):
        with open(f"{folder}/config.json", "w") as file:
            json.dump(config, file)
        with open(f"{folder}/pytest.ini", "w") as file:
            file.write("[pytest]\nshardscope_configs = config.json\n" + ini)

    def test_a_configuration_is_a_test(self):
        with tempfile.TemporaryDirectory() as folder:
            self.project(folder, {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}})
            self.assertEqual(self.pytest(folder).returncode, 5)  # nothing was asked for
            done = self.pytest(folder, "--shardscope-lint")
            self.assertIn("1 passed", done.stdout)

    def test_an_error_of_lint_fails_it_until_it_is_known(self):
        with tempfile.TemporaryDirectory() as folder:
            self.project(folder, {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 7}}, "shardscope_lint = true\n")
            done = self.pytest(folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("fix:", done.stdout)
            self.assertIn("config.json:1: error:", done.stdout)
            lint = subprocess.run([os.environ["SHARDSCOPE"], "lint", f"{folder}/config.json", "--json"], capture_output=True, text=True)
            rules = {row["rule"] for row in json.loads(lint.stdout)["findings"] if row["severity"] == "error"}
            self.project(folder, {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 7}},
                         f"shardscope_lint = true\nshardscope_known = {' '.join(rules)}\n")
            self.assertEqual(self.pytest(folder).returncode, 0)

    def test_the_fixture_checks_on_the_cluster_of_the_ini_file(self):
        with tempfile.TemporaryDirectory() as folder:
            self.project(folder, {}, "shardscope_cluster = h100_sxm\n")
            with open(f"{folder}/test_it.py", "w") as file:
                file.write(f"def test_fits(shardscope_fits):\n    shardscope_fits({str(SOURCES / 'examples/models/gpt2')!r}, runtime='ddp', "
                           "world=2, batch=1, seq=256)\n\n\ndef test_does_not(shardscope_fits):\n    "
                           f"shardscope_fits({str(SOURCES / 'examples/models/llama_3_8b')!r}, runtime='ddp', world=2, batch=1, seq=256)\n")
            done = self.pytest(folder)
            self.assertIn("1 failed, 1 passed", done.stdout)
            self.assertIn("CUDA out of memory", done.stdout)

    def test_the_example_of_ci(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(SOURCES / "examples/ci/test_fits.py", folder)
            os.environ.update(FSDP_CONFIG=str(SOURCES / "examples/configs/fsdp_v1.yaml"), FSDP_MODEL=str(SOURCES / "examples/models/qwen2_5_0_5b"))
            done = self.pytest(folder)
            self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
