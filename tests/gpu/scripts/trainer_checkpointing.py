"""transformers' Trainer: bf16, gradient checkpointing, accumulation over two micro-batches."""
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

config = LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=6, num_attention_heads=12, vocab_size=32000,
                     use_cache=False)
rows = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, 32000, (32, 512))]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(output_dir=folder, max_steps=4, per_device_train_batch_size=4,
                                  gradient_accumulation_steps=2, bf16=True, gradient_checkpointing=True, report_to=[],
                                  save_strategy="no", logging_steps=1)
    Trainer(model=LlamaForCausalLM(config), args=arguments, train_dataset=rows).train()
