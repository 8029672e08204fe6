"""Mamba (a state-space model) of 8 layers, by transformers' own code, which needs no kernels of other packages."""
import torch
from transformers import MambaConfig, MambaForCausalLM

torch.manual_seed(0)
config = MambaConfig(hidden_size=512, num_hidden_layers=8, vocab_size=32000, use_cache=False)
model = MambaForCausalLM(config).to("cuda", torch.bfloat16).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (4, 128), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
