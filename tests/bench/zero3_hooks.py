#!/usr/bin/env python3
"""Measures what the module hooks of DeepSpeed's stage 3 take of the host, beside the same model without DeepSpeed.

    torchrun --nproc-per-node 2 zero3_hooks.py [--lora] [--keep-all] [--frozen] [--no-checkpoints] [--not-reentrant]

A Llama of 8 layers and 64 columns runs forward, its recomputation and backward on the CPU, by processor time of the thread that calls
it. Its tensors are small, so that nearly all of the time is Python, the dispatcher and autograd. `--keep-all` makes every parameter
persistent: then no gather is left, and the difference is the hooks with the operators that they call. A further micro-batch counts both: a
hook is a call of fetch_sub_module or release_sub_module; operators are counted below autograd, and take what an operator of the same model
without DeepSpeed takes. Needs torch, transformers and deepspeed; peft for --lora.
"""
import argparse
import os
import statistics
import time

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM

HIDDEN, LAYERS, TOKENS, MICRO_BATCHES, WARM_UP = 64, 8, 16, 40, 16


class Counter(TorchDispatchMode):
    """Operators below autograd; a view counts as 10/45 of one that issues a kernel, as in the hardware profiles."""

    def __init__(self):
        super().__init__()
        self.weight = 0.0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        is_view = any(r.alias_info and not r.alias_info.is_write for r in func._schema.returns)
        self.weight += 10 / 45 if is_view or func._schema.name == "aten::detach" else 1
        return func(*args, **(kwargs or {}))


def model(options):
    config = LlamaConfig(hidden_size=HIDDEN, intermediate_size=176, num_hidden_layers=LAYERS, num_attention_heads=4,
                         num_key_value_heads=4, vocab_size=256, max_position_embeddings=64, use_cache=False)
    result = LlamaForCausalLM(config).to(torch.bfloat16)
    if options.lora:
        from peft import LoraConfig, get_peft_model

        result.enable_input_require_grads()
        result = get_peft_model(result, LoraConfig(r=8, target_modules="all-linear", lora_dropout=0.05)).to(torch.bfloat16)
    if options.frozen:
        for parameter in result.model.layers[: LAYERS // 2].parameters():
            parameter.requires_grad = False
    if not options.no_checkpoints:
        result.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": not options.not_reentrant})
    return result.train()


def settings(keep_all):
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 8,
        "bf16": {"enabled": True},
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {
            "stage": 3,
            "overlap_comm": True,
            "stage3_prefetch_bucket_size": int(0.9 * HIDDEN * HIDDEN),
            "stage3_param_persistence_threshold": 10**9 if keep_all else 10 * HIDDEN,
        },
    }


def ids_of_a_batch():
    return torch.randint(0, 256, (1, TOKENS))


def median_of_micro_batches(forward, backward, step):
    ids = ids_of_a_batch()
    seconds = []
    for number in range(MICRO_BATCHES):
        start = time.thread_time()
        loss = forward(input_ids=ids, labels=ids).loss
        middle = time.thread_time()
        backward(loss)
        seconds.append((middle - start, time.thread_time() - middle))
        step(number)
    return [1e3 * statistics.median(column) for column in zip(*seconds[WARM_UP:])]


def operators(forward, backward):
    """Of a micro-batch. Only the calling thread is seen, which runs the backward, too."""
    ids = ids_of_a_batch()
    with Counter() as counter:
        backward(forward(input_ids=ids, labels=ids).loss)
    return counter.weight


def hooks(engine):
    """Calls of the coordinator in a forward, and in its recomputation and backward."""
    from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator as Coordinator

    calls = {}

    def counted(name, function):
        def call(*args, **kwargs):
            calls[name] = calls.get(name, 0) + 1
            return function(*args, **kwargs)

        return call

    names = ("fetch_sub_module", "release_sub_module")
    plain = {name: getattr(Coordinator, name) for name in names}
    for name in names:
        setattr(Coordinator, name, counted(name, plain[name]))
    ids = ids_of_a_batch()
    loss = engine(input_ids=ids, labels=ids).loss
    in_forward = dict(calls)
    engine.backward(loss)
    engine.step()
    for name in names:
        setattr(Coordinator, name, plain[name])
    return in_forward, {name: calls[name] - in_forward[name] for name in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--keep-all", action="store_true")
    parser.add_argument("--frozen", action="store_true", help="no gradients of the first half of the blocks")
    parser.add_argument("--no-checkpoints", action="store_true")
    parser.add_argument("--not-reentrant", action="store_true")
    options = parser.parse_args()
    import deepspeed

    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo")

    plain = model(options)
    calls = []
    handles = [module.register_forward_pre_hook(lambda *_: calls.append(None)) for module in plain.modules()]
    plain(input_ids=torch.zeros(1, TOKENS, dtype=torch.long))
    for handle in handles:
        handle.remove()
    zero_grad = lambda number: plain.zero_grad(set_to_none=True) if number % 8 == 7 else None
    without = median_of_micro_batches(plain, torch.Tensor.backward, zero_grad)
    operators_without = operators(plain, torch.Tensor.backward)

    sharded = model(options)
    optimizer = torch.optim.AdamW([p for p in sharded.parameters() if p.requires_grad])
    engine = deepspeed.initialize(model=sharded, optimizer=optimizer, config=settings(options.keep_all))[0]
    with_hooks = median_of_micro_batches(engine, engine.backward, lambda _: engine.step())
    in_forward, in_backward = hooks(engine)
    operators_with = operators(engine, engine.backward)
    engine.step()
    if dist.get_rank() == 0:
        print(f"calls of modules in a forward: {len(calls)}")
        for name, (forward, backward) in (("without DeepSpeed", without), ("stage 3", with_hooks)):
            print(f"{name}: forward {forward:.1f} ms, recomputation and backward {backward:.1f} ms")
        more = sum(with_hooks) - sum(without)
        print(f"more for a call, in forward, recomputation and backward together: {more / len(calls):.2f} ms")
        print(f"hooks in the forward {in_forward}, in recomputation and backward {in_backward}")
        operator = sum(without) / operators_without
        print(f"operators without DeepSpeed {operators_without:.0f}, {1e3 * operator:.1f} us each; with stage 3 {operators_with:.0f}")
        all_hooks = sum(in_forward.values()) + sum(in_backward.values())
        alone = more - operator * (operators_with - operators_without)
        print(f"a hook without its operators: {1e3 * alone / all_hooks:.1f} us")


if __name__ == "__main__":
    main()
