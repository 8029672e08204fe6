#!/usr/bin/env python3
"""Peaks of three training steps under DeepSpeed, for docs/measured/2026-11-28_memory_band.md and tests/data/zero3_reads.

usage: shardscope record --cluster h100_sxm --world 8 --rank 0 -o R -- torchrun --nproc-per-node 8 deepspeed_memory.py CONFIG_FOLDER
           DEEPSPEED.json BATCH SEQ CHECKPOINTING [KIND]

CHECKPOINTING none, full. KIND liger (its fused loss), lora or dora (rank 8 on q_proj, v_proj and down_proj), lora-all (all-linear), lora-embedding or
dora-embedding (on embed_tokens and q_proj). A loss lives until the next one; on 2026-11-28 it was deleted before. Prints one line of JSON: allocated and reserved bytes at the peak of each step. The same beside it:
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
from transformers.integrations import HfDeepSpeedConfig


def adapted(model, kind):
    import peft
    if kind == "lora-all":
        return peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules="all-linear"))
    targets = ["embed_tokens", "q_proj"] if kind.endswith("-embedding") else ["q_proj", "v_proj", "down_proj"]
    return peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules=targets, use_dora=kind.startswith("dora")))


def fuse_loss(config):
    from liger_kernel.transformers import _apply_liger_kernel
    _apply_liger_kernel(config.model_type, rope=False, swiglu=False, rms_norm=False, cross_entropy=False,
                        fused_linear_cross_entropy=True)


def main():
    folder, file, batch, seq, checkpointing = sys.argv[1:6]
    kind = sys.argv[6] if len(sys.argv) > 6 else ""
    deepspeed.init_distributed("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    with open(file) as text:
        settings = json.load(text)
    config = AutoConfig.from_pretrained(folder)
    config.use_cache = False
    with torch.device("meta"):
        AutoModelForCausalLM.from_config(config)  # imports the model's module before zero.Init
    if kind == "liger":
        fuse_loss(config)
    zero3 = settings["zero_optimization"]["stage"] == 3
    # PEFT gathers, and transformers enters zero.Init, where it is there.
    known = HfDeepSpeedConfig(settings) if zero3 and kind.startswith("dora") else None
    with deepspeed.zero.Init(config_dict_or_path=settings, enabled=zero3 and known is None):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    if kind.startswith(("lora", "dora")):
        model = adapted(model, kind)
    model.train()
    if checkpointing == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    trained = [p for p in model.parameters() if p.requires_grad]
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(trained, lr=1e-4), config=settings)
    ids = torch.zeros(int(batch), int(seq), dtype=torch.long, device="cuda")
    peaks = []
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()
        peaks.append({"allocated_bytes": torch.cuda.max_memory_allocated(),
                      "reserved_bytes": torch.cuda.max_memory_reserved()})
    if dist.get_rank() == 0:
        print(json.dumps(peaks))


main()
