"""The loop of litgpt/finetune/lora.py (litgpt 0.5.13: main and fit) with its own model, without a checkpoint, a tokenizer and Alpaca: each sample has
--length random tokens. LoRA of rank 8 on queries and values, bf16-true and AdamW, and FSDP by blocks from 2 devices on, as litgpt did in 2023-10.

shardscope record --cluster a100_40gb --time model -- python litgpt_lora.py Llama-2-7b-hf --length 1304 --micro-batch 2"""
import argparse

import lightning as L
import torch
from lightning.fabric.strategies import FSDPStrategy
from litgpt.lora import GPT, Block, Config, mark_only_lora_as_trainable
from litgpt.utils import chunked_cross_entropy

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("model", help="a name of litgpt's")
parser.add_argument("--length", type=int, required=True, help="tokens of a sample")
parser.add_argument("--micro-batch", type=int, required=True)
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--accumulate", type=int, default=4, help="micro-batches of a step")
options = parser.parse_args()

strategy = "auto"
if options.devices > 1:
    strategy = FSDPStrategy(auto_wrap_policy={Block}, activation_checkpointing_policy={Block}, state_dict_type="full", limit_all_gathers=True,
                            cpu_offload=False)
fabric = L.Fabric(devices=options.devices, strategy=strategy, precision="bf16-true")
fabric.launch()
config = Config.from_name(options.model, lora_r=8, lora_alpha=16, lora_dropout=0.05, lora_query=True, lora_key=False, lora_value=True,
                          lora_projection=False, lora_mlp=False, lora_head=False)
with fabric.init_module(empty_init=fabric.world_size > 1):
    model = GPT(config)
mark_only_lora_as_trainable(model)
model = fabric.setup_module(model)
model.max_seq_length = options.length
optimizer = fabric.setup_optimizers(torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.02))
for step in range(3):
    for micro_batch in range(options.accumulate):
        tokens = torch.randint(0, config.vocab_size, (options.micro_batch, options.length)).to(fabric.device)
        with fabric.no_backward_sync(model, enabled=micro_batch + 1 < options.accumulate):
            logits = model(tokens, lm_head_chunk_size=128)
            logits[-1] = logits[-1][..., :-1, :]
            fabric.backward(chunked_cross_entropy(logits, tokens[..., 1:]) / options.accumulate)
    optimizer.step()
    optimizer.zero_grad()
