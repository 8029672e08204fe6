"""Llama-3's 8 or 70 billion parameters under FSDP2, bf16 with float32 reductions, checkpointed blocks. The model is made on meta, so that no weight
takes memory of the host. shardscope record --world 64 --rank 0 --time model -- torchrun --nproc-per-node 8 large_llama.py 8b --tokens 8192"""
import argparse

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {"8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
         "70b": {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64}}

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("size", choices=SIZES)
parser.add_argument("--tokens", type=int, default=8192)
parser.add_argument("--steps", type=int, default=3)
options = parser.parse_args()

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
config = LlamaConfig(vocab_size=128256, num_key_value_heads=8, max_position_embeddings=8192, rope_theta=500000.0, **SIZES[options.size])
with torch.device("meta"):
    model = LlamaForCausalLM(config)
model.gradient_checkpointing_enable({"use_reentrant": False})
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model.model.layers:
    fully_shard(block, mp_policy=policy)
fully_shard(model, mp_policy=policy)
model.to_empty(device="cuda")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
for _ in range(options.steps):
    tokens = torch.randint(0, config.vocab_size, (1, options.tokens), device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
