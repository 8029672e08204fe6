"""FSDP2 on a mesh of replicas and shards, parameters on the host, mixed precision, accumulation without reductions, checkpoint by DCP."""
import os
import sys
import tempfile
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from transformers import Qwen2Config, Qwen2ForCausalLM

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("cuda:nccl,cpu:gloo")
mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2), mesh_dim_names=("replicate", "shard"))
model = Qwen2ForCausalLM(Qwen2Config(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4, vocab_size=32000))
options = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32), "reshard_after_forward": True}
if "offload" in sys.argv:
    options["offload_policy"] = CPUOffloadPolicy()
for layer in model.model.layers:
    fully_shard(layer, **options)
fully_shard(model, **options)
if "offload" not in sys.argv:
    model.cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(4):
    for part in range(2):
        model.set_requires_gradient_sync(part == 1)
        tokens = torch.randint(0, 32000, (2, 1024), device="cuda")
        loss = model(input_ids=tokens, labels=tokens).loss / 2
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step == 2:
        weights, states = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": states}, checkpoint_id=tempfile.mkdtemp())
    print(step, loss.item())
dist.destroy_process_group()
