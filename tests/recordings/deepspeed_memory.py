#!/usr/bin/env python3
"""Peaks of three training steps under DeepSpeed, for docs/measured/2026-11-28_memory_band.md.

usage: shardscope record --cluster h100_sxm --world 8 --rank 0 -o R -- torchrun --nproc-per-node 8 deepspeed_memory.py CONFIG_FOLDER
           DEEPSPEED.json BATCH SEQ CHECKPOINTING

CHECKPOINTING none, full. Prints one line of JSON: allocated and reserved bytes at the peak of each step. The same beside it:
shardscope simulate --deepspeed DEEPSPEED.json --model CONFIG_FOLDER --world 8 --batch BATCH --seq SEQ --attention flash
"""
import json
import os
import sys

import torch
import torch._dynamo  # before zero.Init changes torch.Tensor's constructors
import torch.distributed as dist
import deepspeed
from transformers import AutoConfig, AutoModelForCausalLM


def main():
    folder, file, batch, seq, checkpointing = sys.argv[1:]
    deepspeed.init_distributed("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with open(file) as text:
        settings = json.load(text)
    config = AutoConfig.from_pretrained(folder)
    config.use_cache = False
    with torch.device("meta"):
        AutoModelForCausalLM.from_config(config)  # imports the model's module before zero.Init
    with deepspeed.zero.Init(config_dict_or_path=settings, enabled=settings["zero_optimization"]["stage"] == 3):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    model.train()
    if checkpointing == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-4),
                                      config=settings)
    ids = torch.zeros(int(batch), int(seq), dtype=torch.long, device="cuda")
    peaks = []
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        del loss
        engine.step()
        peaks.append({"allocated_bytes": torch.cuda.max_memory_allocated(),
                      "reserved_bytes": torch.cuda.max_memory_reserved()})
    if dist.get_rank() == 0:
        print(json.dumps(peaks))


main()
