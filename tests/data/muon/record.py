#!/usr/bin/env python3
"""Memory of two steps of LLaMA-Factory's Muon: record.py llamafactory/third_party/muon/muon.py float32|bfloat16."""
import importlib.util
import sys

import torch

spec = importlib.util.spec_from_file_location("muon", sys.argv[1])
muon = importlib.util.module_from_spec(spec)
spec.loader.exec_module(muon)
dtype = getattr(torch, sys.argv[2])
shapes = [(3000, 512), (512, 1024), (2048, 512), (512,)]
parameters = [torch.nn.Parameter(torch.zeros(shape, device="cuda", dtype=dtype)) for shape in shapes]
by_adamw = [parameters[0], parameters[3]]
optimizer = muon.Muon(lr=1e-3, wd=0.1, muon_params=parameters[1:3], adamw_params=by_adamw)
for step in range(2):
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    optimizer.step()
    print(step, before, torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated())
