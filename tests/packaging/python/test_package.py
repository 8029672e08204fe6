"""The package shardscope over the real program. SHARDSCOPE: the program; SHARDSCOPE_SOURCES: the root of the sources."""
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import shardscope
from shardscope import _program, _text

SOURCES = pathlib.Path(os.environ["SHARDSCOPE_SOURCES"])
MODEL = SOURCES / "examples/models/qwen2_5_0_5b"
GPT2 = SOURCES / "examples/models/gpt2"
CONFIG = SOURCES / "examples/configs/fsdp_v1.yaml"
QUESTION = {"runtime": "fsdp2", "world": 8, "batch": 4, "seq": 2048, "precision": "bf16_mixed", "cluster": "h100_sxm"}


def printed(*arguments):
    """What the program itself prints with --json."""
    done = subprocess.run([os.environ["SHARDSCOPE"], *map(str, arguments), "--json", "--quiet"], capture_output=True, text=True)
    return json.loads(done.stdout)


class Simulate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prediction = shardscope.simulate(MODEL, **QUESTION)
        cls.printed = printed("simulate", "--model", MODEL, "--runtime", "fsdp2", "--world", 8, "--batch", 4, "--seq", 2048,
                              "--precision", "bf16_mixed", "--cluster", "h100_sxm")

    def test_every_field_is_what_the_program_prints(self):
        self.assertEqual(self.prediction.json, self.printed)
        self.assertEqual(self.prediction.step_time_ns, self.printed["step_time_ns"])
        self.assertEqual(self.prediction.memory.at_peak["activations_bytes"], self.printed["memory"]["at_peak"]["activations_bytes"])
        self.assertEqual([step.label for step in self.prediction.steps], [step["label"] for step in self.printed["steps"]])
        self.assertEqual(self.prediction.collectives[0].bytes, self.printed["collectives"][0]["bytes"])

    def test_no_key_of_the_program_is_without_a_field(self):
        fields = set(self.prediction._shown())
        self.assertEqual(set(self.printed) - fields, {"schema"})

    def test_it_is_shown_in_one_line(self):
        line = repr(self.prediction)
        self.assertEqual(len(line.splitlines()), 1)
        self.assertIn("fsdp2 full_shard x8", line)
        self.assertIn(_text.bytes_text(self.printed["needs_bytes"]), line)

    def test_jupyter_gets_the_programs_picture(self):
        html = self.prediction._repr_html_()
        self.assertIn("<svg", html)
        self.assertIn("</svg>", html)
        self.assertNotIn("<?xml", html)

    def test_the_curve_reaches_the_peak(self):
        curve = self.prediction.memory_curve()
        allocated = curve.columns["allocated_bytes"]
        self.assertEqual(max(allocated), max(step["memory"]["peak_allocated_bytes"] for step in self.printed["steps"]))
        self.assertEqual({len(values) for values in curve.columns.values()}, {len(curve)})
        of_categories = [name for name in curve.columns if name not in ("time_ns", "allocated_bytes", "active_bytes", "reserved_bytes")]
        self.assertEqual(sum(curve.columns[name][-1] for name in of_categories), allocated[-1])

    def test_the_curve_is_a_column_where_numpy_and_pandas_are(self):
        try:
            import numpy
            import pandas
        except ImportError as error:
            self.skipTest(str(error))
        curve = self.prediction.memory_curve()
        self.assertIsInstance(curve.column("allocated_bytes"), numpy.ndarray)
        table = curve.to_pandas()
        self.assertIsInstance(table, pandas.DataFrame)
        self.assertEqual(int(table["allocated_bytes"].max()), max(curve.columns["allocated_bytes"]))

    def test_it_leaves_a_run_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            self.prediction.save(folder)
            with open(folder + "/predicted/summary.json") as file:
                self.assertEqual(json.load(file)["step_time_ns"], self.prediction.step_time_ns)

    def test_it_cannot_be_changed(self):
        with self.assertRaises(AttributeError):
            self.prediction.world = 4

    def test_a_run_that_does_not_fit_is_an_answer(self):
        prediction = shardscope.simulate(SOURCES / "examples/models/llama_3_8b", runtime="ddp", world=8, batch=1, seq=2048,
                                         precision="bf16_mixed", cluster="h100_sxm")
        self.assertFalse(prediction.fits)
        self.assertIn("CUDA out of memory", prediction.out_of_memory.message)
        self.assertIn("does not fit", repr(prediction))
        self.assertIn("CUDA out of memory", prediction._repr_html_())

    def test_a_dict_is_a_configuration(self):
        with open(SOURCES / "examples/configs/zero3_auto.json") as file:
            config = json.load(file)
        by_dict = shardscope.simulate(GPT2, deepspeed=config, world=8, batch=2, seq=512, cluster="h100_sxm", precision="bf16_mixed")
        by_file = shardscope.simulate(GPT2, deepspeed=SOURCES / "examples/configs/zero3_auto.json", world=8, batch=2, seq=512,
                                      cluster="h100_sxm", precision="bf16_mixed")
        self.assertEqual(by_dict.step_time_ns, by_file.step_time_ns)


class Readme(unittest.TestCase):
    def test_its_example_runs(self):
        code = (SOURCES / "README.md").read_text().split("```python\n")[1].split("```")[0]
        done = subprocess.run([sys.executable, "-c", code], cwd=SOURCES, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("Prediction(fsdp2 full_shard x8: "), done.stdout)


class Failures(unittest.TestCase):
    def test_bad_input_is_the_programs_line(self):
        with self.assertRaises(shardscope.BadInput) as caught:
            shardscope.simulate(MODEL, cluster="h100_smx")
        self.assertIn('did you mean "h100_sxm"?', str(caught.exception))
        self.assertEqual(len(str(caught.exception).splitlines()), 1)
        self.assertIsInstance(caught.exception, ValueError)

    def test_an_option_that_is_not_there_is_named(self):
        with self.assertRaises(shardscope.BadInput) as caught:
            shardscope.simulate(MODEL, bacth=4)
        self.assertIn("--bacth", str(caught.exception))

    def test_an_object_that_is_no_model_is_named(self):
        with self.assertRaises(shardscope.BadInput) as caught:
            shardscope.simulate(42)
        self.assertIn("got int", str(caught.exception))

    def test_a_program_that_is_missing_says_so(self):
        with Variable("SHARDSCOPE", "/no/such/program"), self.assertRaises(shardscope.OutsideFailure) as caught:
            shardscope.lint(CONFIG)
        self.assertIn("/no/such/program", str(caught.exception))

    def test_a_program_of_another_version_is_told(self):
        with fake_program("echo '{\"format\": \"accelerate\", \"findings\": 7}'"), self.assertRaises(shardscope.OutsideFailure) as caught:
            shardscope.lint(CONFIG)
        self.assertIn("lint.findings: expected a list", str(caught.exception))

    def test_keys_that_are_new_are_no_failure(self):
        with fake_program("echo '{\"format\": \"accelerate\", \"findings\": [], \"new\": 1}'"):
            self.assertEqual(shardscope.lint(CONFIG).json["new"], 1)

    def test_ctrl_c_ends_the_program_and_is_raised(self):
        with tempfile.TemporaryDirectory() as folder:
            script = f"trap 'echo whole > {folder}/end; exit 130' INT; echo $$ > {folder}/started; while true; do sleep 0.05; done"
            with fake_program(script):
                threading.Thread(target=interrupt_when_there, args=(folder + "/started",), daemon=True).start()
                with self.assertRaises(KeyboardInterrupt):
                    shardscope.lint(CONFIG)
            self.assertTrue(os.path.exists(folder + "/end"))
            with open(folder + "/started") as file, self.assertRaises(ProcessLookupError):
                os.kill(int(file.read()), 0)


def interrupt_when_there(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)


class Variable:
    def __init__(self, name, value):
        self.name, self.value = name, value

    def __enter__(self):
        self.before = os.environ.get(self.name)
        os.environ[self.name] = self.value

    def __exit__(self, *_):
        os.environ[self.name] = self.before


class fake_program(Variable):  # noqa: N801
    """A shell script in the program's place."""

    def __init__(self, script):
        self.folder = tempfile.TemporaryDirectory()
        path = self.folder.name + "/program"
        with open(path, "w") as file:
            file.write("#!/bin/bash\n" + script + "\n")
        os.chmod(path, stat.S_IRWXU)
        super().__init__("SHARDSCOPE", path)

    def __exit__(self, *error):
        super().__exit__(*error)
        self.folder.cleanup()


class OtherVerbs(unittest.TestCase):
    def test_plan_has_places_and_a_file(self):
        plan = shardscope.plan(GPT2, cluster="h100_sxm", tokens_per_batch=65536, seq=1024, runtime="fsdp2", places=2)
        self.assertEqual([candidate.place for candidate in plan.candidates], list(range(1, len(plan.candidates) + 1)))
        self.assertEqual(plan.best.settings.runtime, "fsdp2")
        self.assertIn("fsdp_version: 2", plan.chosen.text)
        self.assertIn("<svg", plan._repr_html_())
        self.assertEqual(len(repr(plan).splitlines()), 1)

    def test_lint_has_findings(self):
        answer = shardscope.lint(CONFIG, model=MODEL)
        self.assertEqual([finding.rule for finding in answer.findings],
                         [row["rule"] for row in printed("lint", CONFIG, "--model", MODEL)["findings"]])
        self.assertTrue(answer.findings)
        self.assertIn("<table>", answer._repr_html_())

    def test_report_and_traced_comparison(self):
        folder = SOURCES / "tests/data/kineto/fsdp2_gpt2"
        report = shardscope.report(folder / "rank0.pt.trace.json.gz")
        first = report.ranks[0]
        self.assertEqual(first.span_ns, first.compute_ns + first.exposed_communication_ns + first.exposed_copy_ns + first.idle_ns)
        self.assertIn("<table>", report._repr_html_())  # of a CPU: nothing to draw
        comparison = shardscope.compare(trace=folder)
        self.assertTrue(comparison.match.complete)
        self.assertEqual(comparison.match.collectives.matched, comparison.json["match"]["collectives"]["matched"])
        self.assertIn("everything has its counterpart", repr(comparison))
        self.assertIn("<table>", comparison._repr_html_())


    def test_report_draws_the_streams_of_a_device(self):
        with tempfile.TemporaryDirectory() as folder:
            shardscope.simulate(GPT2, **QUESTION | {"seq": 256}).save(folder)
            self.assertIn("<svg", shardscope.report(folder + "/predicted/trace.json.gz")._repr_html_())


class Checks(unittest.TestCase):
    def test_assert_fits(self):
        self.assertTrue(shardscope.assert_fits(MODEL, **QUESTION).fits)
        with self.assertRaises(AssertionError) as caught:
            shardscope.assert_fits(MODEL, max_step_time_s=0.001, **QUESTION)
        self.assertIn("longer than 0.001 s", str(caught.exception))
        with self.assertRaises(shardscope.DoesNotFit):
            shardscope.assert_fits(SOURCES / "examples/models/llama_3_8b", runtime="ddp", world=8, batch=1, seq=2048, cluster="h100_sxm")

    def test_assert_lints_fails_for_a_rule_that_is_not_known(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/bad.json"
            with open(path, "w") as file:
                json.dump({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 7}}, file)
            with self.assertRaises(AssertionError) as caught:
                shardscope.assert_lints(path)
            rules = tuple(finding.rule for finding in shardscope.lint(path).errors)
            self.assertIn(rules[0], str(caught.exception))
            shardscope.assert_lints(path, known=rules)


LOADED = """
import sys
before = set(sys.modules)
import shardscope
imported = set(sys.modules) - before
shardscope.simulate(sys.argv[1], runtime="fsdp2", world=8, batch=1, seq=256, cluster="h100_sxm")
called = set(sys.modules) - before
names = lambda modules: ",".join(sorted({module.partition(".")[0] for module in modules}))
print(names(imported), names(called))
"""


class Loads(unittest.TestCase):
    """What keeps the import and the first call short: they load little. How short they are is measured, not tested."""

    def test_an_import_loads_little_and_a_call_the_standard_library_only(self):
        said = subprocess.run([sys.executable, "-c", LOADED, GPT2], capture_output=True, text=True).stdout.split()
        imported, called = (set(names.split(",")) for names in said)
        self.assertIn("shardscope", imported)
        self.assertFalse(imported & {"ast", "inspect", "json", "subprocess"}, "what only a call needs")
        self.assertLessEqual(called - {"shardscope"}, set(sys.stdlib_module_names))


class Text(unittest.TestCase):
    def test_amounts_are_rounded_as_the_program_does(self):
        # By hand: 1536 B is 1.5 KiB; 32,426,000,000 B / 2^30 is 30.199; 228,400,000 ns is 228.4 ms.
        self.assertEqual(_text.bytes_text(1536), "1.50 KiB")
        self.assertEqual(_text.bytes_text(32_426_000_000), "30.2 GiB")
        self.assertEqual(_text.bytes_text(12), "12 B")
        self.assertEqual(_text.time_text(228_400_000), "228 ms")
        self.assertEqual(_text.time_text(-1_500), "-1.50 us")


if __name__ == "__main__":
    unittest.main(verbosity=1)
