"""A Llama in 4 bits under FSDP, loaded as fsdp_qlora's train.py does with --low_memory:
each weight is quantised on the GPU and goes back to the host; FSDP takes it unit by unit.

    shardscope record --world 2 --rank 0 -o RUN -- python record.py steps.json
"""
import functools
import json
import os
import sys

import bitsandbytes as bnb
import torch
import torch.distributed as dist
from accelerate import init_empty_weights
from peft import LoraConfig, get_peft_model
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import CPUOffload
from torch.distributed.fsdp.wrap import (
    _or_policy,
    lambda_auto_wrap_policy,
    transformer_auto_wrap_policy,
)
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

CONFIG = dict(model_type="llama", hidden_size=2048, num_hidden_layers=6, num_attention_heads=16, num_key_value_heads=4,
              intermediate_size=5632, vocab_size=32000, max_position_embeddings=2048, tie_word_embeddings=False)
TARGETS = ["k_proj", "q_proj", "v_proj", "up_proj", "down_proj", "gate_proj"]
BATCH, LENGTH, RANK = 2, 512, 16


def in_4_bits(module):
    for name, child in module.named_children():
        if isinstance(child, torch.nn.Linear):
            setattr(module, name, bnb.nn.Linear4bit(child.in_features, child.out_features, bias=False,
                                                    compute_dtype=torch.bfloat16, quant_type="nf4",
                                                    quant_storage=torch.bfloat16))
        else:
            in_4_bits(child)


def load():
    config = LlamaConfig(**{k: v for k, v in CONFIG.items() if k != "model_type"})
    config.use_cache = False
    config._attn_implementation = "sdpa"
    with init_empty_weights():
        model = LlamaForCausalLM(config)
        in_4_bits(model.model)
    for name, parameter in sorted(model.named_parameters()):
        module, _, key = name.rpartition(".")
        value = torch.empty(parameter.shape, dtype=torch.bfloat16)
        if isinstance(parameter, bnb.nn.Params4bit):
            value = bnb.nn.Params4bit(value.to("cuda"), **parameter.__dict__).cuda("cuda")
            value = bnb.nn.Params4bit(value.data.to("cpu"), **value.__dict__)
        else:
            value = torch.nn.Parameter(value)
        setattr(model.get_submodule(module), key, value)
    torch.cuda.empty_cache()
    return model


def wrapped(model, offloads):
    trains = functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda m: (
        len(list(m.named_children())) == 0 and getattr(m, "weight", None) is not None and m.weight.requires_grad))
    blocks = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=(LlamaDecoderLayer,))
    return FSDP(model, auto_wrap_policy=functools.partial(_or_policy, policies=[trains, blocks]),
                use_orig_params=False, limit_all_gathers=True, device_id=torch.cuda.current_device(),
                cpu_offload=CPUOffload(offload_params=True) if offloads else None, sync_module_states=True)


def case(offloads):
    figures = {}

    def note(moment):
        figures[moment] = {"allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
                           "peak_allocated": torch.cuda.max_memory_allocated(),
                           "peak_reserved": torch.cuda.max_memory_reserved()}
        torch.cuda.reset_peak_memory_stats()

    model = load()
    note("load")
    model = get_peft_model(model, LoraConfig(r=RANK, lora_alpha=16, lora_dropout=0.1, target_modules=TARGETS,
                                             task_type="CAUSAL_LM"), autocast_adapter_dtype=False)
    note("adapter")
    model = wrapped(model, offloads)
    note("wrap")
    model.enable_input_require_grads()
    wrapper = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.REENTRANT)
    apply_activation_checkpointing(model, checkpoint_wrapper_fn=wrapper,
                                   check_fn=lambda m: isinstance(m, LlamaDecoderLayer))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    model.train()
    for step in range(2):
        ids = torch.randint(0, 32000, (BATCH, LENGTH)).to("cuda")
        output = model(ids, labels=ids, attention_mask=None)
        output.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        output = None
        note(f"step {step}")
    return {"name": "offloaded" if offloads else "on the device", "offloads": offloads, "config": CONFIG,
            "figures": figures}


dist.init_process_group("nccl", rank=int(os.environ.get("RANK", 0)), world_size=int(os.environ.get("WORLD_SIZE", 2)))
torch.cuda.set_device(0)
result = case(len(sys.argv) > 2 and sys.argv[2] == "offload")
with open(sys.argv[1], "w") as file:
    json.dump(result, file, indent=1)
