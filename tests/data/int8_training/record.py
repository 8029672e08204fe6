"""A forward and a backward of a small Llama in torchao's training in int8, and what PyTorch's caching allocator held.

    shardscope record --time zero --cluster a100_80gb -- python record.py --out case.json

Needs torchao 0.18 and transformers 5.24 beside torch 2.15. Weights are random. There is no optimizer."""
import argparse
import json

import torch
import transformers
from torchao.prototype.quantized_training import Int8MixedPrecisionTrainingConfig, int8_mixed_precision_training, \
    int8_weight_only_quantized_training
from torchao.quantization.quant_api import quantize_

parser = argparse.ArgumentParser()
parser.add_argument("--out", default="case.json")
parser.add_argument("--kind", default="weights", choices=["weights", "products"])
for name, value in {"batch": 2, "length": 256, "checkpointing": 0}.items():
    parser.add_argument("--" + name, type=int, default=value)
args = parser.parse_args()

config = {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 3, "num_attention_heads": 8,
          "num_key_value_heads": 8, "intermediate_size": 1536, "vocab_size": 1000, "max_position_embeddings": 2048,
          "tie_word_embeddings": False}
keys = {key: value for key, value in config.items() if key != "model_type"}
made = transformers.LlamaConfig(**keys, use_cache=False, attn_implementation="sdpa")
torch.backends.cuda.enable_cudnn_sdp(False)
with torch.device("cuda"):
    model = transformers.AutoModelForCausalLM.from_config(made, dtype=torch.bfloat16)
model.train()
if args.checkpointing:
    model.gradient_checkpointing_enable({"use_reentrant": False})
if args.kind == "weights":
    quantize_(model.model.layers, int8_weight_only_quantized_training())
else:
    quantize_(model.model.layers, int8_mixed_precision_training(Int8MixedPrecisionTrainingConfig(True, True, True)))
tokens = torch.zeros(args.batch, args.length, dtype=torch.long, device="cuda")
peaks = {"held": torch.cuda.memory_allocated()}
torch.cuda.reset_peak_memory_stats()
loss = model(input_ids=tokens, labels=tokens).loss
peaks["forward"] = torch.cuda.max_memory_allocated()
torch.cuda.reset_peak_memory_stats()
loss.backward()
peaks["backward"] = torch.cuda.max_memory_allocated()
peaks["gradients"] = torch.cuda.memory_allocated()
with open(args.out, "w") as file:
    json.dump({"kind": args.kind, "batch": args.batch, "length": args.length,
               "checkpointing": bool(args.checkpointing), "config": config, "peaks": peaks}, file)
