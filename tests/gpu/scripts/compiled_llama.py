"""A Llama of 3 layers under torch.compile and bf16 autocast."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=3, num_attention_heads=12, vocab_size=32000,
                     use_cache=False)
model = LlamaForCausalLM(config).cuda().train()
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (4, 512), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = compiled(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
