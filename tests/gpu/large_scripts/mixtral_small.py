"""A Mixtral of 4 layers of Mixtral-8x7B's sizes, bfloat16, 2 sequences of 2,048 tokens."""
import torch
from transformers import MixtralConfig, MixtralForCausalLM

torch.manual_seed(0)
torch.set_default_dtype(torch.bfloat16)
config = MixtralConfig(hidden_size=4096, intermediate_size=14336, num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=8,
                       num_local_experts=8, num_experts_per_tok=2, vocab_size=32000, use_cache=False)
with torch.device("cuda"):
    model = MixtralForCausalLM(config).train()
torch.set_default_dtype(torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (2, 2048), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
