"""Qwen2.5-1.5B, all parameters in float32, bf16 autocast, AdamW, clipping, 4 sequences of 2,048 tokens."""
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

torch.manual_seed(0)
config = Qwen2Config(hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2,
                     vocab_size=151936, max_position_embeddings=32768, tie_word_embeddings=True, use_cache=False)
with torch.device("cuda"):
    model = Qwen2ForCausalLM(config).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (4, 2048), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
