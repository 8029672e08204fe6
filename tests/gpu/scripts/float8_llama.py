"""A Llama of 4 layers whose linear layers torchao computes in 8 bits, scaled by tensor; compiled block by block."""
import torch
from torchao.float8 import Float8LinearConfig, convert_to_float8_training
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=4, num_attention_heads=16,
                     num_key_value_heads=8, vocab_size=32000, use_cache=False)
with torch.device("cuda"):
    model = LlamaForCausalLM(config).to(torch.bfloat16).train()
convert_to_float8_training(model, config=Float8LinearConfig(),
                           module_filter_fn=lambda module, name: isinstance(module, torch.nn.Linear) and "lm_head" not in name)
for layer in model.model.layers:
    layer.compile()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (2, 2048), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
