"""A Llama of 4 layers: tensor parallel over 2 ranks, FSDP2 over the others, each block compiled (--compile)."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import LlamaConfig, LlamaForCausalLM

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (dist.get_world_size() // 2, 2), mesh_dim_names=("shard", "tensor"))
torch.manual_seed(0)
config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16,
                     num_key_value_heads=4, vocab_size=32000, use_cache=False)
with torch.device("cuda"):
    model = LlamaForCausalLM(config).train()
columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
rows = ("self_attn.o_proj", "mlp.down_proj")
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model.model.layers:
    parallelize_module(layer, mesh["tensor"], {**{name: ColwiseParallel() for name in columns}, **{name: RowwiseParallel() for name in rows}})
    if "--compile" in sys.argv:
        layer.compile()
    fully_shard(layer, mesh=mesh["shard"], mp_policy=policy)
fully_shard(model, mesh=mesh["shard"], mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)  # foreach does not take whole and split parameters together
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (4, 1024), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
