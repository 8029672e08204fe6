"""transformers' Trainer on a Llama with PEFT's LoRA on all linear layers."""
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, vocab_size=32000,
                     use_cache=False)
model = get_peft_model(LlamaForCausalLM(config).to(torch.bfloat16),
                       LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
rows = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, 32000, (16, 512))]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(output_dir=folder, max_steps=4, per_device_train_batch_size=4, bf16=True, report_to=[],
                                  save_strategy="no", logging_steps=1)
    Trainer(model=model, args=arguments, train_dataset=rows).train()
