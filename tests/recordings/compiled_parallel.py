#!/usr/bin/env python3
"""Peaks of three training steps of torchtitan's Llama with compiled blocks, on several axes, for tests/data/compiled/parallel.json.

usage: shardscope record --cluster h100_sxm --time zero --world N [--ranks R,...] -o R -- torchrun --nproc-per-node 8 compiled_parallel.py CASE

CASE is JSON: mesh (axes by torchtitan's names, from the outermost to the innermost), model (dim, layers, heads, kv, hidden, vocab), B, T,
compile (none, blocks, blocks+loss), and what DEFAULTS has. The model and its parallelism are those of torchtitan of 2025: blocks are
compiled after activation checkpointing and before FSDP2, the loss by itself. Example: '{"mesh": {"dp_shard": 2, "tp": 2}, "compile": "blocks"}'.
Prints one line of JSON: allocated bytes at the peak of each step. Collectives are the nccl lines of the recording's events.txt.
"""
import contextlib
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               loss_parallel, parallelize_module)

DEFAULTS = dict(model={}, B=2, T=512, dtype="float32", mixed=True, checkpointing="none", compile="blocks", schedule="1F1B", micro_batches=1,
                stages=1, float8=None, reshard=True, steps=3)
MODEL = dict(dim=512, layers=4, heads=8, kv=4, hidden=1536, vocab=4096)


class Attention(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.hd = m["dim"] // m["heads"]
        self.wq = nn.Linear(m["dim"], m["heads"] * self.hd, bias=False)
        self.wk = nn.Linear(m["dim"], m["kv"] * self.hd, bias=False)
        self.wv = nn.Linear(m["dim"], m["kv"] * self.hd, bias=False)
        self.wo = nn.Linear(m["heads"] * self.hd, m["dim"], bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        q, k, v = (a.view(b, t, -1, self.hd) for a in (q, k, v))
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        n = q.shape[2] // k.shape[2]
        k, v = (a[:, :, :, None, :].expand(b, t, a.shape[2], n, self.hd).reshape(b, t, -1, self.hd) for a in (k, v))
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.wo(o.transpose(1, 2).reshape(b, t, -1))


def rope(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).type_as(x)


class FeedForward(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.w1 = nn.Linear(m["dim"], m["hidden"], bias=False)
        self.w2 = nn.Linear(m["hidden"], m["dim"], bias=False)
        self.w3 = nn.Linear(m["dim"], m["hidden"], bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(m["dim"]), nn.RMSNorm(m["dim"])
        self.attention = Attention(m)
        self.feed_forward = FeedForward(m)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(self, m, T, layers, first, last):
        super().__init__()
        hd = m["dim"] // m["heads"]
        self.tok_embeddings = nn.Embedding(m["vocab"], m["dim"]) if first else None
        self.layers = nn.ModuleDict({str(i): Block(m) for i in layers})
        self.norm = nn.RMSNorm(m["dim"]) if last else None
        self.output = nn.Linear(m["dim"], m["vocab"], bias=False) if last else None
        self.register_buffer("cos", torch.empty(T, hd // 2, dtype=torch.float32), persistent=False)
        self.register_buffer("sin", torch.empty(T, hd // 2, dtype=torch.float32), persistent=False)

    def forward(self, x):
        if self.tok_embeddings is not None:
            x = self.tok_embeddings(x)
        for b in self.layers.values():
            x = b(x, self.cos, self.sin)
        return self.output(self.norm(x)) if self.output is not None else x


def tensor_parallel(model, mesh, float8):
    col, row, prep = ColwiseParallel, RowwiseParallel, PrepareModuleInput
    if float8 == "tensorwise":
        from torchao.float8.float8_tensor_parallel import (Float8ColwiseParallel as col, Float8RowwiseParallel as row,
                                                           PrepareFloat8ModuleInput as prep)
    plan = {}
    if model.tok_embeddings is not None:
        plan["tok_embeddings"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
    if model.output is not None:
        plan["norm"] = SequenceParallel()
        plan["output"] = ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)
    parallelize_module(model, mesh, plan)
    for b in model.layers.values():
        parallelize_module(b, mesh, {
            "attention_norm": SequenceParallel(), "ffn_norm": SequenceParallel(),
            "attention": prep(input_layouts=(Shard(1), None, None), desired_input_layouts=(Replicate(), None, None)),
            "feed_forward": prep(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "attention.wq": col(), "attention.wk": col(), "attention.wv": col(), "attention.wo": row(output_layouts=Shard(1)),
            "feed_forward.w1": col(), "feed_forward.w3": col(), "feed_forward.w2": row(output_layouts=Shard(1))})


def build(c, mesh, layers, first, last):
    torch.set_default_dtype(getattr(torch, c["dtype"]))
    with torch.device("meta"):
        model = Llama(c["model"], c["T"], layers, first, last)
    torch.set_default_dtype(torch.float32)
    if c["float8"]:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
        config = (Float8LinearConfig(enable_fsdp_float8_all_gather=c["mesh"].get("dp_shard", 1) > 1)
                  if c["float8"] == "tensorwise" else Float8LinearConfig.from_recipe_name(c["float8"]))
        convert_to_float8_training(model, config=config, module_filter_fn=lambda mod, name: name != "output")
    if c["mesh"].get("tp", 1) > 1:
        tensor_parallel(model, mesh["tp"], c["float8"])
    if c["checkpointing"] == "full":
        for n, b in list(model.layers.items()):
            model.layers[n] = checkpoint_wrapper(b, preserve_rng_state=False)
    if c["compile"] != "none":
        for n, b in list(model.layers.items()):
            b.compile(fullgraph=True)
    if c["mesh"].get("dp_shard", 1) > 1 or c["mesh"].get("cp", 1) > 1:
        dp = mesh["dp_shard"]
        if c["mesh"].get("cp", 1) > 1:
            dp = mesh["dp_shard", "cp"]._flatten("dp_shard_cp")
        elif c["mesh"].get("dp_replicate", 1) > 1:
            dp = mesh["dp_replicate", "dp_shard"]
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if c["mixed"] else MixedPrecisionPolicy(None, torch.float32)
        kw = dict(mesh=dp, mp_policy=policy, reshard_after_forward=c["reshard"])
        for b in model.layers.values():
            fully_shard(b, **kw)
        fully_shard(model, **kw)
    model.to_empty(device="cuda")
    model.train()
    return model


def cross_entropy(out, y):
    return F.cross_entropy(out.flatten(0, 1).float(), y.flatten(0, 1))


def stages_of(c, mesh):
    from torch.distributed.pipelining import PipelineStage
    ranks, rank = mesh["pp"].size(), mesh["pp"].get_local_rank()
    stages = ranks * c["stages"]
    tp = c["mesh"].get("tp", 1)
    m, rows = c["model"], c["B"] // c["micro_batches"]
    act = torch.bfloat16 if c["mixed"] else getattr(torch, c["dtype"])
    per = m["layers"] // stages
    result = []
    for s in [rank + i * ranks for i in range(c["stages"])]:
        part = build(c, mesh, range(s * per, (s + 1) * per), s == 0, s == stages - 1)
        h = torch.empty(rows, c["T"] // tp, m["dim"], dtype=act, device="meta")
        ids = torch.empty(rows, c["T"], dtype=torch.int64, device="meta")
        logits = torch.empty(rows, c["T"], m["vocab"], dtype=act, device="meta")
        hin = ids if s == 0 else h.clone().requires_grad_()
        hout = (logits if s == stages - 1 else h.clone()).requires_grad_()
        result.append(PipelineStage(part, s, stages, torch.device("cuda"), input_args=(hin,), output_args=(hout,),
                                    group=mesh["pp"].get_group()))
    return result


def main():
    given = json.loads(sys.argv[1])
    c = {**DEFAULTS, **given}
    c["model"] = {**MODEL, **c["model"]}
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh("cuda", tuple(c["mesh"].values()), mesh_dim_names=tuple(c["mesh"]))
    if c["float8"] or c["mesh"].get("cp", 1) > 1:
        torch.backends.cuda.enable_cudnn_sdp(c["mesh"].get("cp", 1) == 1)
    loss_fn = torch.compile(cross_entropy) if c["compile"] == "blocks+loss" else cross_entropy
    stages, schedule = [], None
    if c["mesh"].get("pp", 1) > 1:
        from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class
        stages = stages_of(c, mesh)
        cls = get_schedule_class(c["schedule"])
        schedule = cls(stages if issubclass(cls, PipelineScheduleMulti) else stages[0], n_microbatches=c["micro_batches"], loss_fn=loss_fn)
        model = nn.ModuleList([s.submod for s in stages])
    else:
        model = build(c, mesh, range(c["model"]["layers"]), True, True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    ids = torch.zeros(c["B"], c["T"], dtype=torch.long, device="cuda")
    labels = torch.zeros(c["B"], c["T"], dtype=torch.long, device="cuda")
    tp, cp = c["mesh"].get("tp", 1) > 1, c["mesh"].get("cp", 1) > 1
    peaks = []
    for _ in range(c["steps"]):
        torch.cuda.reset_peak_memory_stats()
        x, y = (ids.clone(), labels.clone()) if cp else (ids, labels)
        sequences = contextlib.nullcontext()
        if cp:
            from torch.distributed.tensor.experimental._attention import context_parallel, set_rotate_method
            set_rotate_method("allgather")
            sequences = context_parallel(mesh["cp"], buffers=[x, y, model.cos, model.sin], buffer_seq_dims=[1, 1, 0, 0], no_restore_buffers={x, y})
        with sequences, (loss_parallel() if tp else contextlib.nullcontext()):
            if schedule:
                first, last = any(s.is_first for s in stages), any(s.is_last for s in stages)
                schedule.step(*((x,) if first else ()), **({"target": y, "losses": []} if last else {}))
            else:
                out = model(x)
                loss = loss_fn(out, y)
                del out
                loss.backward()
                del loss
        optimizer.step()
        if c["float8"] == "tensorwise" and c["mesh"].get("dp_shard", 1) > 1:
            from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp
            for part in ([s.submod for s in stages] or [model]):
                precompute_float8_dynamic_scale_for_fsdp(part)
        optimizer.zero_grad()
        peaks.append(torch.cuda.max_memory_allocated())
    print(json.dumps({"rank": dist.get_rank(), "peaks": peaks}))


main()
