#!/usr/bin/env python3
"""Peaks of three training steps under torch.compile, for tests/data/compiled.

usage: shardscope record --cluster h100_sxm -o R -- python compiled_memory.py CONFIG_FOLDER RUNTIME COMPILE PRECISION BATCH SEQ
           LOSS CHECKPOINTING [LORA_RANK]
       (RUNTIME fsdp2: shardscope record --world 8 ... -- torchrun --nproc-per-node 8 compiled_memory.py ...)

RUNTIME plain, accelerate, fsdp2; COMPILE eager, blocks+loss, model; PRECISION fp32, bf16 (parameters, too), amp; LOSS outside,
model; CHECKPOINTING none, full; with LORA_RANK adapters on all linear layers, alpha twice the rank.
Prints one line of JSON: allocated bytes at the peaks of forward and backward of each step.
"""
import contextlib
import json
import os
import sys

import torch
import torch.distributed as dist
from transformers import AutoConfig, AutoModelForCausalLM


def cross_entropy(logits, labels):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1))


def blocks_of(model):
    return model.gpt_neox.layers if hasattr(model, "gpt_neox") else model.model.layers


def shard(model):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in blocks_of(model):
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device="cuda")


def main():
    folder, runtime, compiled, precision, batch, seq, loss_place, checkpointing, *lora = sys.argv[1:]
    if runtime == "fsdp2":
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    config = AutoConfig.from_pretrained(folder)
    config.use_cache = False
    with torch.device("meta" if runtime == "fsdp2" else "cuda"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa",
                                                 dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    model.train()
    if checkpointing == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    blocks = blocks_of(model)
    if lora:
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=int(lora[0]), lora_alpha=2 * int(lora[0]), lora_dropout=0.0,
                                                 target_modules="all-linear", task_type="CAUSAL_LM"))
        model.train()
    loss_of = cross_entropy
    if compiled == "blocks+loss":
        for block in blocks:
            block.compile()
        loss_of = torch.compile(cross_entropy)
    if compiled == "model" and runtime == "plain":
        model.compile()
    if runtime == "fsdp2":
        shard(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, fused=True)
    context = contextlib.nullcontext
    if runtime == "accelerate":
        from accelerate import Accelerator
        accelerator = Accelerator(mixed_precision="bf16" if precision == "amp" else "no",
                                  dynamo_backend="inductor" if compiled == "model" else "no")
        model, optimizer = accelerator.prepare(model, optimizer)
    elif precision == "amp" and runtime == "plain":
        context = lambda: torch.autocast("cuda", torch.bfloat16)
    ids = torch.zeros(int(batch), int(seq), dtype=torch.long, device="cuda")
    peaks = []
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        with context():
            if loss_place == "model":
                loss = model(input_ids=ids, labels=ids).loss
            else:
                loss = loss_of(model(input_ids=ids).logits, ids)
        forward = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        loss.backward()
        del loss
        peaks.append({"forward_peak_bytes": forward, "backward_peak_bytes": torch.cuda.max_memory_allocated()})
        optimizer.step()
        optimizer.zero_grad()
    if runtime != "fsdp2" or dist.get_rank() == 0:
        print(json.dumps(peaks))


main()
