"""Whisper (encoder and decoder over spectrograms) of whisper-base's sizes, bf16 autocast."""
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

torch.manual_seed(0)
model = WhisperForConditionalGeneration(WhisperConfig(
    d_model=512, encoder_layers=6, decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048,
    decoder_ffn_dim=2048, use_cache=False)).cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for _ in range(4):
    sound, labels = torch.randn(8, 80, 3000, device="cuda"), torch.randint(0, 50000, (8, 128), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(input_features=sound, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
