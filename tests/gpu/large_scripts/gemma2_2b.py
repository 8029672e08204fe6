"""Gemma-2-2B, all parameters in bfloat16, checkpointing, 4 sequences of 2,048 tokens, logits of 256,000 words."""
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

torch.manual_seed(0)
torch.set_default_dtype(torch.bfloat16)
config = Gemma2Config(hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, num_attention_heads=8, num_key_value_heads=4,
                      head_dim=256, vocab_size=256000, use_cache=False, attn_implementation="eager")
with torch.device("cuda"):
    model = Gemma2ForCausalLM(config).train()
torch.set_default_dtype(torch.float32)
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (4, 2048), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
