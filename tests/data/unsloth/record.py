"""Two training steps under Unsloth, and what PyTorch's caching allocator held at most in each part.

    shardscope record --time zero --cluster titan_rtx -- python record.py --dtype float16 --out case.json

Needs unsloth 2026.8.11, unsloth_zoo 2026.8.11 and transformers 5.5.0 beside torch 2.15. The model is small and has
random weights; it is made in --folder first. The loop is written out here: Unsloth's own trainer adds nothing to it
that takes memory.
"""
import argparse
import json
import os

os.environ.update(UNSLOTH_DISABLE_STATISTICS="1", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")

parser = argparse.ArgumentParser()
for name, value in {"family": "llama", "dtype": "bfloat16", "optimizer": "adamw_8bit", "out": "case.json",
                    "folder": "unsloth_models"}.items():
    parser.add_argument("--" + name, default=value)
for name, value in {"batch": 2, "length": 256, "rank": 16, "four_bits": 1, "offloads_inputs": 1, "kv_heads": 2,
                    "micro_batches": 2, "steps": 2}.items():
    parser.add_argument("--" + name, type=int, default=value)
args = parser.parse_args()

import unsloth  # noqa: E402  (it patches what is imported after it)
import torch  # noqa: E402
import transformers  # noqa: E402
from tokenizers import Tokenizer, models  # noqa: E402
from unsloth import FastLanguageModel  # noqa: E402

LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
config = {"model_type": args.family, "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
          "num_key_value_heads": args.kv_heads, "intermediate_size": 2816, "vocab_size": 32000,
          "max_position_embeddings": 4096, "tie_word_embeddings": False}
if args.family == "mistral":
    config["sliding_window"] = None
if args.family == "qwen3":
    config["head_dim"] = 128


def made_model():
    folder = f"{args.folder}/{args.family}_{args.kv_heads}"
    if not os.path.exists(folder):
        keys = {key: value for key, value in config.items() if key != "model_type"}
        made = transformers.AutoConfig.for_model(args.family, **keys)
        transformers.AutoModelForCausalLM.from_config(made, dtype=torch.bfloat16).save_pretrained(folder)
        words = Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3}, unk_token="<unk>"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", bos_token="<s>",
                                             eos_token="</s>", pad_token="<pad>").save_pretrained(folder)
    return folder


dtype = getattr(torch, args.dtype)
checkpointing = "unsloth" if args.offloads_inputs else True
model, _ = FastLanguageModel.from_pretrained(model_name=made_model(), max_seq_length=2048, dtype=dtype,
                                             load_in_4bit=bool(args.four_bits), local_files_only=True)
model = FastLanguageModel.get_peft_model(model, r=args.rank, target_modules=LAYERS, lora_alpha=16, lora_dropout=0,
                                         bias="none", use_gradient_checkpointing=checkpointing)
FastLanguageModel.for_training(model)
trained = [p for p in model.parameters() if p.requires_grad]
if args.optimizer == "adamw_8bit":
    import bitsandbytes
    optimizer = bitsandbytes.optim.AdamW8bit(trained)
else:
    optimizer = torch.optim.AdamW(trained)
scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
tokens = [[torch.zeros(args.batch, args.length, dtype=torch.long, device="cuda") for _ in range(2)]
          for _ in range(args.micro_batches)]
items = torch.tensor(args.micro_batches * args.batch * args.length, device="cuda")
peaks = {}


def note(moment):
    peaks[moment] = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()


for _ in range(args.steps):
    for i, (ids, labels) in enumerate(tokens):
        with torch.autocast("cuda", dtype=dtype):
            loss = model(input_ids=ids, labels=labels, num_items_in_batch=items).loss
        note(f"{i}.forward")
        scaler.scale(loss).backward()
        del loss
        note(f"{i}.backward")
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    note("step")

major, minor = torch.cuda.get_device_capability()
with open(args.out, "w") as file:
    json.dump({"dtype": args.dtype, "capability": 10 * major + minor, "batch": args.batch, "length": args.length,
               "rank": args.rank, "four_bits": bool(args.four_bits), "offloads_inputs": bool(args.offloads_inputs),
               "optimizer": args.optimizer, "config": config, "peaks": peaks}, file)
