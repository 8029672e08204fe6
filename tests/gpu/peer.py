#!/usr/bin/env python3
"""The peer of the benchmarks: a GPT-2 in PyTorch, compiled, as fast as PyTorch alone trains it.

Leaves ready.json in its mailbox once it is compiled; then, for every file go.K with a number N in it, takes N training
steps and leaves done.K.json: {"step_ns": [...]}. Ends when there is a file "stop", or when whoever started it is gone.
Where it cannot go on it leaves "failed", with the reason.
Random weights and tokens: only time is asked of it. bfloat16 autocast over float32 weights, flash attention through
SDPA, fused AdamW, clipping at 1: what ours does. Between its turns it gives back what memory it can.
"""
import argparse
import json
import math
import os
import pathlib
import time


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", required=True, help="config.json of a GPT-2")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--mailbox", required=True, type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--eager", action="store_true", help="not compiled")
    return parser.parse_args()


arguments = parse()
with open(arguments.config) as file:
    config = json.load(file)

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.ln_1(x)).split(width, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        width = config["n_embd"]
        self.wte = nn.Embedding(config["vocab_size"], width)
        self.wpe = nn.Embedding(config["n_positions"], width)
        self.blocks = nn.ModuleList(Block(width, config["n_head"]) for _ in range(config["n_layer"]))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2))

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.ln_f(x), self.wte.weight)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def make_step():
    """A function that takes one training step and gives its time in nanoseconds."""
    device = arguments.device
    model = Gpt2().to(device)
    step_model = model if arguments.eager else torch.compile(model)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=1e-4, betas=(0.9, 0.95), fused=True)
    shape = (arguments.batch, arguments.seq)
    tokens, targets = (torch.randint(0, min(config["vocab_size"], 50257), shape, device=device) for _ in range(2))

    def step():
        begin = time.perf_counter_ns()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = step_model(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter_ns() - begin

    return step


def put(name, figures):
    """Whole or not at all; what memory can be given back is."""
    part = arguments.mailbox / (name + ".part")
    part.write_text(json.dumps(figures))
    part.rename(arguments.mailbox / name)
    if arguments.device == "cuda":
        torch.cuda.empty_cache()


def main():
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    step = make_step()
    begin = time.perf_counter()
    for _ in range(3):
        step()
    peak = torch.cuda.max_memory_allocated() if arguments.device == "cuda" else 0
    put("ready.json", {"torch": torch.__version__, "compiled": not arguments.eager,
                       "compile_s": round(time.perf_counter() - begin, 3), "peak_allocated_bytes": peak})
    starter = os.getppid()
    turn = 0
    while os.getppid() == starter and not (arguments.mailbox / "stop").exists():
        go = arguments.mailbox / f"go.{turn}"
        if not go.exists():
            time.sleep(0.05)
            continue
        step()  # memory that was given back comes again
        put(f"done.{turn}.json", {"step_ns": [step() for _ in range(int(go.read_text()))]})
        turn += 1


try:
    main()
except Exception as error:
    (arguments.mailbox / "failed").write_text(f"{type(error).__name__}: {error}"[:500])
    raise
