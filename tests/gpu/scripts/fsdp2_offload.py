"""A Llama of 8 layers under FSDP2 whose parameters, gradients and optimizer states are kept on the host."""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

dist.init_process_group("cpu:gloo,cuda:nccl", device_id=torch.device("cuda:0"))
torch.manual_seed(0)
config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
                     num_key_value_heads=4, vocab_size=32000, use_cache=False)
model = LlamaForCausalLM(config).train()
settings = {"mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
            "offload_policy": CPUOffloadPolicy(pin_memory=True)}
for layer in model.model.layers:
    fully_shard(layer, **settings)
fully_shard(model, **settings)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (4, 1024), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
