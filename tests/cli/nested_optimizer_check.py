#!/usr/bin/env python3
"""nested_optimizer_check.py SHARDSCOPE: `record` counts one step of an optimizer that holds others (torchtitan's OptimizersContainer, PyTorch's
ZeroRedundancyOptimizer), whatever it does after their steps. A step that raised is not a step. Skipped (77) unless SHARDSCOPE_TORCH_PYTHON names a
Python with torch."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
SCRIPT = """
import torch

class Container(torch.optim.Optimizer):
    def __init__(self, parts):
        self.parts = [torch.optim.SGD(part.parameters(), lr=0.1) for part in parts]
        super().__init__([p for part in parts for p in part.parameters()], {})

    def step(self):
        for part in self.parts:
            part.step()
        for group in self.param_groups:
            torch._foreach_norm(group["params"])  # a kernel after the last part's step

class Failing(torch.optim.SGD):
    def step(self):
        raise RuntimeError("no memory for its states")

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).cuda()
try:
    Failing(model.parameters(), lr=0.1).step()
except RuntimeError:
    pass
optimizer = Container(list(model))
for _ in range(3):
    model(torch.ones(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def main():
    python = os.environ.get("SHARDSCOPE_TORCH_PYTHON")
    if not python:
        print("SHARDSCOPE_TORCH_PYTHON names no Python")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "train.py").write_text(SCRIPT)
        done = subprocess.run([sys.argv[1], "record", "--json", "--quiet", "-o", "run", "--", python, "train.py"], cwd=folder, capture_output=True,
                              text=True)
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {done.stderr}")
    steps = json.loads(done.stdout)["recording"]["steps"]
    if steps != 3:
        sys.exit(f"{steps} steps were recorded, not 3")
    print("3 steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
