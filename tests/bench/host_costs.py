#!/usr/bin/env python3
"""Measures the processor time that eager PyTorch takes of the host for an operator, by phase of a training step.

    host_costs.py [--device cpu|cuda] [--rounds N] [--only NAME] [--megatron FOLDER] [--json]

Tensors have a few numbers, so that nearly all of the time is Python, the dispatcher and autograd. With `--device cuda` run it on the
device of `shardscope record`, where a launch costs nearly nothing:

    shardscope record --time zero -- python host_costs.py --device cuda

A first pass counts operators with a dispatch mode. `operations` issue a kernel, `views` issue nothing. Then steps are timed without
the mode, by processor time of the whole process, since autograd's thread runs the backward on a GPU. Needs torch; transformers for
its two models; for Megatron's layers a checkout of bigscience-workshop/Megatron-DeepSpeed, its dependency deepspeed, and a GPU.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

BLOCKS, HIDDEN, HEADS, TOKENS, VOCABULARY = 8, 16, 2, 4, 32
VIEW = 10 / 45  # of an operation's time, as in the hardware profiles
ISSUE_NOTHING = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "detach", "_unsafe_view", "_reshape_alias"}


class Counter(TorchDispatchMode):
    """Operators below autograd, as the device's backend gets them."""

    def __init__(self):
        super().__init__()
        self.operations = self.views = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        schema = func._schema
        is_view = any(r.alias_info and not r.alias_info.is_write for r in schema.returns)
        if is_view or schema.name.split("::")[1] in ISSUE_NOTHING:
            self.views += 1
        else:
            self.operations += 1
        return func(*args, **(kwargs or {}))


def gpt2(device):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=BLOCKS, n_embd=HIDDEN, n_head=HEADS, n_positions=TOKENS, vocab_size=VOCABULARY, use_cache=False)
    return GPT2LMHeadModel(config).to(device)


def llama(device):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(num_hidden_layers=BLOCKS, hidden_size=HIDDEN, intermediate_size=32, num_attention_heads=HEADS,
                         num_key_value_heads=HEADS, vocab_size=VOCABULARY, max_position_embeddings=TOKENS, use_cache=False)
    return LlamaForCausalLM(config).to(device)


class RmsNorm(torch.nn.Module):
    """torchtitan's of 2024: five operators."""

    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return (x * torch.rsqrt(torch.mean(x.float() * x.float(), dim=-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class TitanBlock(torch.nn.Module):
    """As torchtitan/models/llama/model.py: rotary embedding in complex numbers, SDPA, SwiGLU."""

    def __init__(self):
        super().__init__()
        linear = lambda a, b: torch.nn.Linear(a, b, bias=False)
        self.wq, self.wk, self.wv, self.wo = (linear(HIDDEN, HIDDEN) for _ in range(4))
        self.w1, self.w3, self.w2 = linear(HIDDEN, 32), linear(HIDDEN, 32), linear(32, HIDDEN)
        self.attention_norm, self.ffn_norm = RmsNorm(HIDDEN), RmsNorm(HIDDEN)

    def forward(self, x, freqs):
        y = self.attention_norm(x)
        b, s, _ = y.shape
        q, k, v = (w(y).view(b, s, HEADS, -1) for w in (self.wq, self.wk, self.wv))
        turn = lambda t: torch.view_as_real(torch.view_as_complex(t.float().reshape(*t.shape[:-1], -1, 2)) * freqs).flatten(3).type_as(t)
        q, k = turn(q), turn(k)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous().view(b, s, -1)
        x = x + self.wo(y)
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Blocks(torch.nn.Module):
    def __init__(self, block, recompute, extra=None):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = torch.nn.ModuleList(block() for _ in range(BLOCKS))
        self.head = torch.nn.Linear(HIDDEN, VOCABULARY, bias=False)
        self.recompute, self.extra = recompute, extra

    def forward(self, input_ids, labels):
        x = self.embedding(input_ids)
        for block in self.blocks:
            x = checkpoint(block, x, self.extra, use_reentrant=True) if self.recompute else block(x, self.extra)
        loss = F.cross_entropy(self.head(x).flatten(0, 1).float(), labels.flatten())
        return (loss,)


def titan(device, recompute=False):
    freqs = torch.polar(torch.ones(TOKENS, 1, HIDDEN // HEADS // 2), torch.zeros(TOKENS, 1, HIDDEN // HEADS // 2))
    return Blocks(TitanBlock, recompute, freqs.to(device)).to(device)


def megatron_layers(folder, recompute):
    """Layers of a checkout of Megatron-DeepSpeed, on one GPU: without its packages that need CUDA kernels of their own."""

    def make(device):
        import importlib
        import logging
        import sys
        import types

        options = types.SimpleNamespace(
            hidden_size=HIDDEN, ffn_hidden_size=4 * HIDDEN, kv_channels=HIDDEN // HEADS, num_attention_heads=HEADS, seq_length=TOKENS,
            micro_batch_size=1, num_layers=BLOCKS, checkpoint_num_layers=1, tensor_model_parallel_size=1, layernorm_epsilon=1e-5,
            attention_dropout=0.1, hidden_dropout=0.1, fp16=True, bf16=False, params_dtype=torch.float16, bias_gelu_fusion=True,
            bias_dropout_fusion=True, masked_softmax_fusion=False, apply_query_key_layer_scaling=True, attention_softmax_in_fp32=False,
            apply_residual_connection_post_layernorm=False, fp32_residual_connection=False, glu_activation=None, openai_gelu=False,
            onnx_safe=None, use_cpu_initialization=False, use_bnb_optimizer=False, sync_tp_duplicated_parameters=False,
            distribute_checkpointed_activations=False, abort_on_unmet_fused_kernel_constraints=False, curriculum_learning=False,
            position_embedding_type=None)

        def package(name, **members):
            module = types.ModuleType(name)
            vars(module).update(members)
            sys.modules[name] = module
            return module

        log = package("megatron.logging", get_logger=logging.getLogger)
        whole = package("megatron", __path__=[f"{folder}/megatron"], get_args=lambda: options, logging=log)
        package("megatron.memory", allocate_mem_buff=None)
        whole.model = package("megatron.model", __path__=[f"{folder}/megatron/model"])
        package("megatron.model.fused_layer_norm", MixedFusedLayerNorm=torch.nn.LayerNorm)
        whole.mpu = mpu = importlib.import_module("megatron.mpu")
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
        mpu.initialize_model_parallel(1)
        mpu.get_cuda_rng_tracker().add("model-parallel-rng", 2719)
        from megatron.enums import AttnMaskType, PositionEmbeddingType
        from megatron.model.transformer import ParallelTransformerLayer

        options.position_embedding_type = PositionEmbeddingType.absolute
        start = torch.nn.init.normal_
        layers = torch.nn.ModuleList(ParallelTransformerLayer(start, start, i + 1, self_attn_mask_type=AttnMaskType.padding) for i in range(BLOCKS))
        layers = layers.to(device).half()
        mask = torch.zeros(1, 1, TOKENS, TOKENS, dtype=torch.bool, device=device)
        first = torch.randn(TOKENS, 1, HIDDEN, device=device, dtype=torch.float16, requires_grad=True)

        class Stack(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = layers

            def forward(self, input_ids, labels):
                x = first
                for layer in self.layers:
                    x = mpu.checkpoint(lambda a, b, layer=layer: layer(a, b), x, mask) if recompute else layer(x, mask)
                return (x.float().sum(),)

        return Stack()

    return make


MODELS = {
    "gpt2 (transformers)": gpt2,
    "llama (transformers)": llama,
    "llama as torchtitan's": titan,
    "llama as torchtitan's, all blocks run again": lambda device: titan(device, True),
}


def phases(model, optimizer, batch):
    """One step as a list of (name, function)."""
    kept = {}

    def forward():
        kept["loss"] = model(input_ids=batch, labels=batch)[0]

    def copies():
        """The loop of Megatron's Float16OptimizerWithFloat16Params (_copy_model_grads_to_main_grads), into 16 bits instead of from them."""
        kept["copies"] = [parameter.grad.half() for parameter in model.parameters() if parameter.grad is not None]

    def backward():
        kept["loss"].backward()

    # The second backward adds to the gradients of the first.
    return [("forward", forward), ("backward", backward), ("forward 2", forward), ("backward 2", backward), ("copies", copies), ("optimizer", optimizer.step),
            ("zero_grad", lambda: optimizer.zero_grad(set_to_none=True))]


def measure(make, device, rounds, clock):
    torch.manual_seed(0)
    model = make(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    batch = torch.zeros(1, TOKENS, dtype=torch.long, device=device)
    steps = phases(model, optimizer, batch)
    for _ in range(5):
        for _, run in steps:
            run()
    counts = {}
    for name, run in steps:
        with Counter() as counter:
            run()
        counts[name] = (counter.operations, counter.views)
    times = {name: [] for name, _ in steps}
    for _ in range(rounds):
        for name, run in steps:
            begin = clock()
            run()
            times[name].append(clock() - begin)
    return {name: {"operations": counts[name][0], "views": counts[name][1], "us": 1e6 * statistics.median(times[name])} for name in times}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--megatron", metavar="FOLDER", help="a checkout of Megatron-DeepSpeed")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    models = dict(MODELS)
    if options.megatron:
        models["Megatron-DeepSpeed's layers"] = megatron_layers(options.megatron, False)
    results = {name: measure(make, options.device, options.rounds, time.process_time) for name, make in models.items() if options.only in name}
    if options.json:
        print(json.dumps({"torch": torch.__version__, "device": options.device, "models": results}))
        return
    for model, by_phase in results.items():
        print(model)
        for name, one in by_phase.items():
            operations = one["operations"]
            weighed = operations + VIEW * one["views"]
            print(f"  {name:10s} {operations:5d} operations {one['views']:5d} views {one['us']:9.0f} us {one['us'] / weighed:6.2f} us an operation")


if __name__ == "__main__":
    main()
