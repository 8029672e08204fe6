"""`recorded` and the callbacks on real runs of two processes of a CPU. Skipped where torch and transformers are absent."""
import importlib.util
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

import shardscope

HERE = pathlib.Path(__file__).resolve().parent


def missing(*packages):
    return [name for name in packages if importlib.util.find_spec(name) is None]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def run(way, folder):
    done = subprocess.run([sys.executable, HERE / "train_script.py", way, folder], capture_output=True, text=True, timeout=280,
                          env={**os.environ, "TEST_PORT": free_port()})
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@unittest.skipIf(missing("torch", "transformers"), "torch or transformers is absent")
class RecordedRun(unittest.TestCase):
    def check(self, way, runtime, micro_batches, clips=True, own_collectives=0):
        """`own_collectives`: of the training loop's own, a step and rank, which no model's prediction has."""
        with tempfile.TemporaryDirectory() as work:
            folder = os.path.join(work, way)
            done = run(way, folder)
            for rank in (0, 1):
                self.assertTrue(os.path.exists(f"{folder}/rank{rank}.pt.trace.json.gz"), done.stderr)
            with open(f"{folder}/settings.json") as file:
                settings = json.load(file)
            self.assertEqual(settings["strategy"], runtime)
            self.assertEqual((settings["batch"], settings["seq"], settings["world"]), (2, 16, 2))
            self.assertEqual(settings["micro_batches"], micro_batches)
            self.assertEqual("clip" in settings["case"], clips)
            comparison = shardscope.compare(trace=folder)
            collectives = comparison.match.collectives
            self.assertEqual(collectives.matched, collectives.predicted)
            self.assertEqual(collectives.profiled - collectives.matched, 4 * own_collectives)  # of two steps of two ranks
            self.assertEqual(comparison.match.complete, own_collectives == 0, json.dumps(comparison.json["match"])[:3000])
            self.assertEqual(comparison.match.steps.profiled, 4)
            self.assertFalse(comparison.times_comparable)        # a CPU beside a predicted GPU
            self.assertEqual(len(re.findall("every step, unit and collective has its counterpart", done.stdout)), own_collectives == 0)
            return settings

    def test_fsdp2_in_a_loop_of_ones_own(self):
        settings = self.check("fsdp2", "fsdp2", 2)
        self.assertEqual(settings["wrap"], ["transformer.h.0", "transformer.h.1"])

    def test_fsdp2_with_the_callback(self):
        self.check("fsdp2_callback", "fsdp2", 2)

    def test_ddp_in_a_loop_of_ones_own(self):
        self.check("ddp", "ddp", 2)

    def test_lightnings_callback(self):
        if missing("lightning"):
            self.skipTest("lightning is absent")
        self.check("lightning", "ddp", 1, clips=False, own_collectives=1)  # broadcasts whether to stop

    def test_the_trainers_callback(self):
        if missing("accelerate"):
            self.skipTest("accelerate is absent")
        self.check("trainer", "ddp", 1, own_collectives=1)  # gathers how many tokens count


@unittest.skipIf(missing("torch"), "torch is absent")
class OneProcess(unittest.TestCase):
    def script(self, body):
        code = "import torch, shardscope\nmodel = torch.nn.Linear(4, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        code += "def step():\n    model(torch.ones(2, 4)).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n" + body
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)

    def test_a_model_that_is_not_predicted_leaves_its_trace_and_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.script(f"with shardscope.recorded({folder!r}):\n    for _ in range(5): step()\n")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.exists(folder + "/rank0.pt.trace.json.gz"))
            self.assertIn("nothing is predicted: the model is in none of DDP, FSDP1 and FSDP2", done.stderr)
            self.assertEqual([name for name in os.listdir(folder) if name.startswith(".")], [])

    def test_a_training_that_is_too_short_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.script(f"with shardscope.recorded({folder!r}):\n    step()\n")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("ended after 1 steps, and 4 were needed", done.stderr)

    def test_a_training_that_fails_raises_its_own_error(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.script(f"with shardscope.recorded({folder!r}):\n    step()\n    raise RuntimeError('mine')\n")
            self.assertIn("RuntimeError: mine", done.stderr)

    def test_the_hooks_are_gone_afterwards(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.script(
                "from torch.nn.modules import module\nfrom torch.optim import optimizer as o\nclip = torch.nn.utils.clip_grad_norm_\n"
                f"with shardscope.recorded({folder!r}):\n    for _ in range(5): step()\n"
                "assert not module._global_forward_pre_hooks and not module._global_forward_hooks\n"
                "assert not o._global_optimizer_post_hooks\nassert torch.nn.utils.clip_grad_norm_ is clip\n")
            self.assertEqual(done.returncode, 0, done.stderr)


@unittest.skipIf(missing("torch", "transformers"), "torch or transformers is absent")
class Models(unittest.TestCase):
    """An nn.Module, one on the meta device and a config ask what the config.json asks."""

    QUESTION = {"runtime": "fsdp2", "world": 2, "batch": 1, "seq": 16, "cluster": "h100_sxm"}

    @classmethod
    def setUpClass(cls):
        from transformers import GPT2Config

        cls.config = GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=96, n_positions=32, bos_token_id=0, eos_token_id=0,
                                architectures=["GPT2LMHeadModel"])
        with tempfile.TemporaryDirectory() as folder:
            cls.config.save_pretrained(folder)
            cls.expected = shardscope.simulate(folder, **cls.QUESTION)

    def test_a_config(self):
        self.assertEqual(shardscope.simulate(self.config, **self.QUESTION).step_time_ns, self.expected.step_time_ns)

    def test_a_module_of_transformers(self):
        import torch
        from transformers import GPT2LMHeadModel

        for device in ("cpu", "meta"):
            with torch.device(device):
                model = GPT2LMHeadModel(self.config)
            prediction = shardscope.simulate(model, **self.QUESTION)
            self.assertEqual(prediction.step_time_ns, self.expected.step_time_ns)
            self.assertEqual(prediction.needs_bytes, self.expected.needs_bytes)

    def test_a_module_that_is_not_that_of_its_config_is_not_taken_for_it(self):
        """A frozen embedding, tied to the head, has no gradient, and no state of the optimizer."""
        from transformers import GPT2LMHeadModel

        model = GPT2LMHeadModel(self.config)
        model.transformer.wte.weight.requires_grad_(False)
        frozen, whole = (shardscope.simulate(one, **(self.QUESTION | {"runtime": "ddp"})) for one in (model, self.config))
        states = [one.json["steps"][-1]["memory"]["maximum"]["optimizer_states_bytes"] for one in (frozen, whole)]
        self.assertEqual(states[1] - states[0], 2 * 4 * 96 * 32)

    def test_an_export_is_asked_what_its_config_asks(self):
        """A model of transformers in a module of one's own, which no config tells."""
        import torch
        from transformers import GPT2LMHeadModel

        class Around(torch.nn.Module):
            _no_split_modules = ["GPT2Block"]

            def __init__(self, config):
                super().__init__()
                self.inner = GPT2LMHeadModel(config)

            def forward(self, ids):
                return self.inner(input_ids=ids, labels=ids, use_cache=False)

        question = self.QUESTION | {"runtime": "ddp"}
        for precision in ("fp32", "bf16_mixed"):
            mine = shardscope.simulate(Around(self.config), inputs={"ids": "int64[B,T]"}, precision=precision, **question)
            known = shardscope.simulate(self.config, precision=precision, **question)
            for one, other in zip(mine.json["steps"], known.json["steps"]):
                # One batch of ids in place of ids and labels, of 512 bytes at the least.
                self.assertEqual(one["memory"]["peak_allocated_bytes"] + 512, other["memory"]["peak_allocated_bytes"])
                self.assertEqual(one["time"]["compute_ns"], other["time"]["compute_ns"])

    def test_a_loss_and_tensors_of_ones_own(self):
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
        batch = [torch.zeros(4, 64)]
        mean = shardscope.simulate(model, inputs=batch, batch=4, runtime="ddp", world=2, cluster="h100_sxm")
        sum_of_squares = shardscope.simulate(model, inputs=batch, batch=4, runtime="ddp", world=2, cluster="h100_sxm",
                                             loss=lambda outputs: outputs.square().sum())
        self.assertGreater(sum_of_squares.step_time_ns, mean.step_time_ns)

    def test_a_plan_for_a_module_of_ones_own(self):
        import torch

        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
        plan = shardscope.plan(model, inputs=["float32[B,64]"], batches=[2, 4], world=2, cluster="h100_sxm", tokens_per_batch=16, seq=1)
        self.assertIn(plan.json["candidates"][0]["settings"]["batch"], (2, 4))

    def test_any_other_module_is_exported(self):
        import torch

        from shardscope import _program
        from shardscope._models import Files, model_file

        files = Files()
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        answer = _program.ask("model", [model_file(model, files)])
        self.assertEqual(answer["model"]["parameter_elements"], 4 * 8 + 8 + 8 * 2 + 2)
        self.assertEqual(answer["parameters"][0], {"name": "0.weight", "shape": [8, 4], "dtype": "float32", "trainable": True})


if __name__ == "__main__":
    unittest.main()
