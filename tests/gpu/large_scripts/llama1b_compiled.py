"""Llama-3.2-1B in bfloat16, compiled as a whole, fused AdamW, 8 sequences of 2,048 tokens."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
torch.set_default_dtype(torch.bfloat16)
config = LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                     head_dim=64, vocab_size=128256, max_position_embeddings=8192, tie_word_embeddings=True, use_cache=False)
with torch.device("cuda"):
    model = LlamaForCausalLM(config).train()
torch.set_default_dtype(torch.float32)
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (8, 2048), device="cuda")
    compiled(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
