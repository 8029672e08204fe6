#!/usr/bin/env python3
"""A small mixture in torchtitan's own trainer, for the files of tests/data/torchtitan.

usage: shardscope record --world N --rank 0 --time model -o R -- python torchtitan_experts.py CASE OPTION...
       torchtitan_experts.py --case R [RANK] > case.json

CASE is JSON: family (qwen3_moe, deepseek_v3, gpt_oss; dense: llama3, qwen3), layers, experts, top_k, checkpointing (none, selective, full), hidden, float8 (rowwise), tied (of qwen3), sent and
received (rows that the rank exchanges with each rank of its experts, in the place of equal ones); of deepseek_v3 also dense_layers, query_rank,
groups, limited_groups, scores, shared. The options are torchtitan's own, such as --module qwen3 --config qwen3_moe_debug
(deepseek_v3 deepseek_v3_debugmodel, gpt_oss gpt_oss_debugmodel_flex) --training.disable_cuda_graphs --training.steps 3
--training.seq_len 512 --training.local_batch_size 2 --parallelism.expert_parallel_degree 2
--debug.moe_force_load_balance --checkpoint.no-enable --metrics.log_freq 1000. The working directory has torchtitan's tests/assets.
Prints PyTorch's peak of each step and its rank. --case reads the recording, of a pipeline that of one of its ranks: the collectives of the last step,
of an exchange all its sends as one.
"""
import json
import os
import sys

DEFAULTS = dict(family="qwen3_moe", layers=2, experts=8, top_k=2, checkpointing="none", hidden=768)
DEEPSEEK = dict(dense_layers=1, query_rank=0, groups=None, limited_groups=None, scores="softmax", shared=2)
DTYPES = {1: "uint8", 2: "int32", 4: "int64", 7: "float32", 9: "bfloat16"}


def patch_triton():
    """triton 3.9 refuses keys that torchao 0.18 names and its kernels do not have."""
    import triton.runtime.autotuner as tuner
    real = tuner.Autotuner.__init__

    def init(self, fn, arg_names, configs, key, *rest, **named):
        return real(self, fn, arg_names, configs, [name for name in key if name in arg_names], *rest, **named)

    tuner.Autotuner.__init__ = init


def leave_tuning_out():
    """Which kernel FlexAttention takes changes nothing of memory and collectives, and the search takes minutes."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention
    from torchtitan.models.common.attention import FlexAttention
    FlexAttention._compiled_flex_attn = torch.compile(
        flex_attention, options={"wrap_inductor_compiled_regions": True, "triton.cudagraphs": False})


def qwen3_layers(case):
    from torchtitan.models import qwen3
    return qwen3._build_qwen3_moe_layers(
        fuse_qkv=True, n_layers=case["layers"], dim=256, n_heads=16, n_kv_heads=8, head_dim=128, moe_hidden_dim=case["hidden"],
        num_experts=case["experts"], top_k=case["top_k"], attn_backend="flex", moe_comm_backend="standard",
        rope=qwen3.CosSinRoPE.Config(dim=128, max_seq_len=4096, theta=1000000.0))


def deepseek_layers(case):
    from torchtitan.models import deepseek_v3
    case = dict(DEEPSEEK, **case)
    return deepseek_v3._build_dsv3_layers(
        n_layers=case["layers"], n_dense_layers=case["dense_layers"], dim=256, n_heads=8, q_lora_rank=case["query_rank"], kv_lora_rank=192,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, mscale=1.0, dense_hidden_dim=1024, moe_hidden_dim=case["hidden"],
        num_experts=case["experts"], num_shared_experts=case["shared"], router_top_k=case["top_k"], router_score_func=case["scores"],
        router_num_expert_groups=case["groups"], router_num_limited_groups=case["limited_groups"],
        router_route_norm=case["scores"] == "sigmoid", attn_backend="flex", moe_comm_backend="standard", non_blocking_capacity_factor=None,
        rope=deepseek_v3.ComplexRoPE.Config(dim=64, max_seq_len=16384, theta=10000.0, scaling="yarn", rope_factor=40.0, beta_fast=32.0,
                                            beta_slow=1.0, original_seq_len=4096))


def gpt_oss_layers(case):
    from torchtitan.models import gpt_oss
    return gpt_oss._build_gptoss_layers(
        dim=256, n_layers=case["layers"], hidden_dim=case["hidden"], num_experts=case["experts"], top_k=case["top_k"], load_balance_coeff=1e-3,
        attn_backend="flex", moe_comm_backend="standard",
        rope=gpt_oss.CosSinRoPE.Config(dim=64, max_seq_len=131072, theta=150000.0, scaling="yarn", rope_factor=32.0, beta_fast=32.0,
                                       beta_slow=1.0, original_seq_len=4096))


def llama3_layers(case):
    from torchtitan.models import llama3
    return llama3._build_llama3_layers(
        n_layers=case["layers"], dim=256, n_heads=4, n_kv_heads=2, hidden_dim=case["hidden"], attn_backend="flex",
        rope=llama3.ComplexRoPE.Config(dim=64, max_seq_len=131072, theta=500000, scaling="llama"))


def dense_qwen3_layers(case):
    from torchtitan.models import qwen3
    return qwen3._build_qwen3_layers(
        fuse_qkv=True, n_layers=case["layers"], dim=256, n_heads=16, n_kv_heads=8, head_dim=128, hidden_dim=case["hidden"],
        attn_backend="flex", rope=qwen3.CosSinRoPE.Config(dim=128, max_seq_len=4096, theta=1000000.0))


def exchange_with(sent, received):
    """Rows that the rank sends to each rank of its experts and gets from it, whatever the counts say."""
    from torchtitan.models.common.token_dispatcher import AllToAllTokenDispatcher
    name = "_sync_token_count_exchange"
    real = getattr(AllToAllTokenDispatcher, name)

    def exchange(self, *given, **named):
        counts, _, _ = real(self, *given, **named)
        return counts, sent, received

    setattr(AllToAllTokenDispatcher, name, exchange)


def in_float8(model, recipe):
    from torchtitan.components.quantization.float8 import Float8LinearConverter
    return Float8LinearConverter.Config(recipe_name=recipe, filter_fqns=["lm_head", "router.gate"]).build().convert(model)


def train(case):
    patch_triton()
    leave_tuning_out()
    if "sent" in case:
        exchange_with(case["sent"], case["received"])
    import importlib
    import torch
    from torchtitan import train as titan
    from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
    from torchtitan.trainer import Trainer
    module, name, layers = dict(qwen3_moe=("qwen3", "qwen3_moe_debug", qwen3_layers),
                                deepseek_v3=("deepseek_v3", "deepseek_v3_debugmodel", deepseek_layers),
                                gpt_oss=("gpt_oss", "gpt_oss_debugmodel_flex", gpt_oss_layers),
                                llama3=("llama3", "llama3_debugmodel", llama3_layers),
                                qwen3=("qwen3", "qwen3_debugmodel", dense_qwen3_layers))[case["family"]]
    registry = importlib.import_module(f"torchtitan.models.{module}.config_registry")
    debug, step = getattr(registry, name), Trainer.train_step

    def small():
        config = debug()
        config.model_spec.model.layers = layers(case)
        config.activation_checkpoint = dict(none=None, selective=SelectiveAC.Config(), full=FullAC.Config())[case["checkpointing"]]
        config.model_spec.model.enable_weight_tying = case.get("tied", False)
        config.validator.enable = False
        if "float8" in case:
            config.model_spec.model = in_float8(config.model_spec.model, case["float8"])
        return config

    def counted(self, data):
        torch.cuda.reset_peak_memory_stats()
        step(self, data)
        print("peak", torch.cuda.max_memory_allocated(), "of rank", os.environ["RANK"], flush=True)

    setattr(registry, name, small)
    Trainer.train_step = counted
    titan.main()


def collectives_of_last_step(path, stages):
    """[kind, ranks, elements that the rank gives (of a reduction to parts, or a receive: gets), dtype]; `stages`: ranks of the pipeline."""
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
            if ranks == stages or kind not in ("send", "receive"):
                step.append([kind, ranks, elements, dtype])
            elif kind == "receive":
                continue
            elif f[8] == "0":
                step.append(["all_to_all", ranks, elements, dtype])
            else:
                step[-1][2] += elements
    return before


def case_of(run, rank):
    told = json.load(open(os.path.join(run, "recording.json")))
    arguments = told["command"][2:]

    def degree(axis):
        option = f"--parallelism.{axis}_parallel_degree"
        return int(arguments[arguments.index(option) + 1]) if option in arguments else 1

    world, pipeline = told["world"], degree("pipeline")
    inside = world // pipeline
    stages = ",".join(str(rank % inside + stage * inside) for stage in range(pipeline))
    path = os.path.join(run, "events.txt")
    other = os.path.join(run, f"events_rank{rank}.txt")
    return dict(DEFAULTS, **json.loads(arguments[0]), world=world, rank=rank, expert_ranks=degree("expert"), tensor=degree("tensor"),
                context=degree("context"), compiled="--compile.enable" in arguments,
                pipeline=pipeline, collectives=collectives_of_last_step(other if os.path.exists(other) else path, stages))


if sys.argv[1] == "--case":
    print(json.dumps(case_of(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)))
else:
    case = dict(DEFAULTS, **json.loads(sys.argv.pop(1)))
    sys.argv[0] = "train.py"
    train(case)
