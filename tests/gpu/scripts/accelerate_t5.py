"""T5 (encoder and decoder) under accelerate, bf16, accumulation over two micro-batches."""
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import T5Config, T5ForConditionalGeneration

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
torch.manual_seed(0)
model = T5ForConditionalGeneration(T5Config(use_cache=False, decoder_start_token_id=0))
data = DataLoader(torch.randint(0, 32128, (64, 256)), batch_size=8)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
model.train()
for ids in data:
    with accelerator.accumulate(model):
        accelerator.backward(model(input_ids=ids, labels=ids[:, :64].contiguous()).loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
