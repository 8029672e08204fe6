"""Llama-3-8B, all parameters, all in bfloat16, checkpointing, fused AdamW, clipping, 2 sequences of 4,096 tokens."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
torch.set_default_dtype(torch.bfloat16)
config = LlamaConfig(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                     vocab_size=128256, max_position_embeddings=8192, rope_theta=500000.0, use_cache=False)
with torch.device("cuda"):
    model = LlamaForCausalLM(config).train()
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (2, 4096), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
