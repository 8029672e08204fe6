"""transformers' Trainer on a Llama; its arguments are the command line: trainer.py --bf16 --torch_compile --gradient_checkpointing ..."""
import torch
from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

arguments = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]
torch.manual_seed(0)
config = LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=12, vocab_size=32000,
                     use_cache=False)
rows = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, config.vocab_size, (32, 512))]
Trainer(model=LlamaForCausalLM(config), args=arguments, train_dataset=rows).train()
