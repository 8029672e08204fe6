#!/usr/bin/env python3
"""Measures what the module hooks of DeepSpeed's stage 3 take of the host, beside the same model without DeepSpeed.

    torchrun --nproc-per-node 2 zero3_hooks.py [--lora] [--keep-all]

A Llama of 8 layers and 64 columns runs forward, its recomputation and backward on the CPU, by processor time of the thread that calls
it. Its tensors are small, so that nearly all of the time is Python, the dispatcher and autograd. `--keep-all` makes every parameter
persistent: then no gather is left, and the difference is the hooks alone. Needs torch, transformers and deepspeed; peft for --lora.
"""
import argparse
import os
import statistics
import time

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM

HIDDEN, LAYERS, TOKENS, MICRO_BATCHES, WARM_UP = 64, 8, 16, 40, 16


def model(lora):
    config = LlamaConfig(hidden_size=HIDDEN, intermediate_size=176, num_hidden_layers=LAYERS, num_attention_heads=4,
                         num_key_value_heads=4, vocab_size=256, max_position_embeddings=64, use_cache=False)
    result = LlamaForCausalLM(config).to(torch.bfloat16)
    if lora:
        from peft import LoraConfig, get_peft_model

        result.enable_input_require_grads()
        result = get_peft_model(result, LoraConfig(r=8, target_modules="all-linear", lora_dropout=0.05)).to(torch.bfloat16)
    result.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
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


def median_of_micro_batches(forward, backward, step):
    ids = torch.randint(0, 256, (1, TOKENS))
    seconds = []
    for number in range(MICRO_BATCHES):
        start = time.thread_time()
        loss = forward(input_ids=ids, labels=ids).loss
        middle = time.thread_time()
        backward(loss)
        seconds.append((middle - start, time.thread_time() - middle))
        step(number)
    return [1e3 * statistics.median(column) for column in zip(*seconds[WARM_UP:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--keep-all", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo")

    plain = model(options.lora)
    calls = []
    handles = [module.register_forward_pre_hook(lambda *_: calls.append(None)) for module in plain.modules()]
    plain(input_ids=torch.zeros(1, TOKENS, dtype=torch.long))
    for handle in handles:
        handle.remove()
    zero_grad = lambda number: plain.zero_grad(set_to_none=True) if number % 8 == 7 else None
    without = median_of_micro_batches(plain, torch.Tensor.backward, zero_grad)

    sharded = model(options.lora)
    optimizer = torch.optim.AdamW([p for p in sharded.parameters() if p.requires_grad])
    engine = deepspeed.initialize(model=sharded, optimizer=optimizer, config=settings(options.keep_all))[0]
    with_hooks = median_of_micro_batches(engine, engine.backward, lambda _: engine.step())
    if dist.get_rank() == 0:
        print(f"calls of modules in a forward: {len(calls)}")
        for name, (forward, backward) in (("without DeepSpeed", without), ("stage 3", with_hooks)):
            print(f"{name}: forward {forward:.1f} ms, recomputation and backward {backward:.1f} ms")
        more = sum(with_hooks) - sum(without)
        print(f"more for a call, in forward, recomputation and backward together: {more / len(calls):.2f} ms")


if __name__ == "__main__":
    main()
