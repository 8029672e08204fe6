"""Peaks of allocated memory of three training steps of litgpt's own GPT.

usage: shardscope record --time zero --cluster h100_sxm -o OUT -- python record.py CASE RESULT.json
CASE is JSON: {"config": ..., "lora": ..., "B": 2, "T": 300, "micro": 2}: of a case in steps.json its "litgpt", its "lora" with "lora_alpha": 16,
and the rest. litgpt 00af8b0d (model.py, lora.py, config.py, utils.py) must be importable as the package litgpt.
"""
import json, sys, torch, math
from litgpt.lora import GPT as LoraGPT, Config as LoraConfig, mark_only_lora_as_trainable
from litgpt.model import GPT
from litgpt.config import Config
from litgpt.utils import chunked_cross_entropy
torch.backends.cuda.enable_cudnn_sdp(False)
case = json.loads(sys.argv[1]); out = sys.argv[2]
lora = case.get("lora")
args = dict(block_size=4096, padding_multiple=64, **case["config"])
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    if lora:
        model = LoraGPT(LoraConfig(**args, **lora))
    else:
        model = GPT(Config(**args))
torch.set_default_dtype(torch.float32)
if lora: mark_only_lora_as_trainable(model)
model.to(torch.bfloat16)
B, T = case["B"], case["T"]
model.max_seq_length = T
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
res = {"loaded": torch.cuda.memory_allocated(), "iterations": []}
def peak():
    p = torch.cuda.max_memory_allocated(); torch.cuda.reset_peak_memory_stats(); return p
peak()
micro = case.get("micro", 1)
batches = [[torch.zeros(B, T, dtype=torch.int64, device="cuda") for _ in range(2)] for _ in range(micro)]
def forward(ids):
    torch.set_default_dtype(torch.bfloat16)
    o = model(ids, lm_head_chunk_size=128) if lora else model(ids)
    torch.set_default_dtype(torch.float32)
    o = [x.float() for x in o] if isinstance(o, list) else o.float()
    return o
for it in range(3):
    r = []
    for m in range(micro):
        ids, labels = batches[m]
        logits = forward(ids)
        if lora:
            logits[-1] = logits[-1][..., :-1, :]
            loss = chunked_cross_entropy(logits, labels[..., 1:])
        else:
            loss = chunked_cross_entropy(logits[..., :-1, :], labels[..., 1:])
        f = peak()
        (loss / micro).backward()
        r.append([f, peak()])
    opt.step(); s = peak()
    opt.zero_grad()
    res["iterations"].append({"micro": r, "step": s, "after": torch.cuda.memory_allocated()}); peak()
json.dump(res, open(out, "w")); print(json.dumps(res))
