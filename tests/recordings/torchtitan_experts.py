#!/usr/bin/env python3
"""A small Qwen3 mixture in torchtitan's own trainer, for tests/data/torchtitan/experts.json.

usage: shardscope record --world N --rank 0 --time model -o R -- python torchtitan_experts.py CASE OPTION...
       torchtitan_experts.py --case R > case.json

CASE is JSON: layers, experts, top_k, checkpointing (none, selective, full) and vocab; the options are torchtitan's own, such as
--training.disable_cuda_graphs --training.steps 3 --training.seq_len 512 --training.local_batch_size 2 --parallelism.expert_parallel_degree 2
--debug.moe_force_load_balance --checkpoint.no-enable --metrics.log_freq 1000. The working directory has torchtitan's tests/assets.
Prints PyTorch's peak of each step. --case reads the recording: the collectives of the last step, of an exchange all its sends as one.
"""
import json
import os
import sys

DEFAULTS = dict(layers=2, experts=8, top_k=2, checkpointing="none", hidden=768)
DTYPES = {1: "uint8", 4: "int64", 7: "float32", 9: "bfloat16"}


def patch_triton():
    """triton 3.9 refuses keys that torchao 0.18 names and its kernels do not have."""
    import triton.runtime.autotuner as tuner
    real = tuner.Autotuner.__init__

    def init(self, fn, arg_names, configs, key, *rest, **named):
        return real(self, fn, arg_names, configs, [name for name in key if name in arg_names], *rest, **named)

    tuner.Autotuner.__init__ = init


def train(case):
    patch_triton()
    import torch
    from torchtitan import train as titan
    from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
    from torchtitan.models import qwen3
    from torchtitan.models.qwen3 import config_registry
    from torchtitan.trainer import Trainer
    debug, step = config_registry.qwen3_moe_debug, Trainer.train_step

    def small():
        config = debug()
        config.model_spec.model.layers = qwen3._build_qwen3_moe_layers(
            fuse_qkv=True, n_layers=case["layers"], dim=256, n_heads=16, n_kv_heads=8, head_dim=128, moe_hidden_dim=case["hidden"],
            num_experts=case["experts"], top_k=case["top_k"], attn_backend="flex", moe_comm_backend="standard",
            rope=qwen3.CosSinRoPE.Config(dim=128, max_seq_len=4096, theta=1000000.0))
        config.activation_checkpoint = dict(none=None, selective=SelectiveAC.Config(), full=FullAC.Config())[case["checkpointing"]]
        return config

    def counted(self, data):
        torch.cuda.reset_peak_memory_stats()
        step(self, data)
        print("peak", torch.cuda.max_memory_allocated(), flush=True)

    config_registry.qwen3_moe_debug, Trainer.train_step = small, counted
    titan.main()


def collectives_of_last_step(path):
    """[kind, ranks, elements that the rank gives (of a reduction to parts: gets), dtype]."""
    groups, of_communicator, before, step = [], {}, [], []
    for line in open(path):
        f = line.rstrip("\n").split("\t")
        if len(f) < 3:
            continue
        if f[1] == "group":
            groups.append(f[2])
        elif f[1] == "communicator":
            of_communicator[f[2]] = groups[-1]
        elif f[1] == "phase" and f[2] == "step_end":
            before, step = step, []
        elif f[1] == "nccl":
            kind, ranks, elements, dtype = f[3], of_communicator[f[4]], int(f[5]), DTYPES[int(f[6])]
            if kind == "receive":
                continue
            if kind != "send":
                step.append([kind, ranks, elements, dtype])
            elif f[8] == "0":
                step.append(["all_to_all", ranks, elements, dtype])
            else:
                step[-1][2] += elements
    return before


if sys.argv[1] == "--case":
    run = sys.argv[2]
    told = json.load(open(os.path.join(run, "recording.json")))
    arguments = told["command"][2:]
    degree = int(arguments[arguments.index("--parallelism.expert_parallel_degree") + 1])
    print(json.dumps(dict(DEFAULTS, **json.loads(arguments[0]), world=told["world"], rank=told["rank"], expert_ranks=degree,
                          collectives=collectives_of_last_step(os.path.join(run, "events.txt")))))
else:
    case = dict(DEFAULTS, **json.loads(sys.argv.pop(1)))
    sys.argv[0] = "train.py"
    train(case)
