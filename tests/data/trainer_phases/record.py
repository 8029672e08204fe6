"""A small training by transformers' Trainer that is saved, or goes on from what was saved, and what memory each phase took.

    PEAKS=peaks.json shardscope record --time zero --cluster h100_sxm --world 2 -- accelerate launch --config_file FILE run.py KIND OUT [resume]

KIND: full, lora or qlora. Rank 0 writes for each phase the highest bytes of the device (allocated, reserved) and of PyTorch's allocator of the host.
"""
import functools
import json
import os
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", WANDB_DISABLED="true")
import torch
import transformers
from torch.autograd.profiler import profile

KIND, OUT, RESUME = sys.argv[1], sys.argv[2], len(sys.argv) > 3
CONFIG = dict(hidden_size=256, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, intermediate_size=704, vocab_size=20000,
              max_position_embeddings=1024, tie_word_embeddings=False, dtype="bfloat16")
LENGTH, BATCH = 128, 2
rank = int(os.environ.get("RANK", "0"))
peaks = []


class Phase:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        torch.cuda.reset_peak_memory_stats()
        self.profile = profile(use_device=None, profile_memory=True)
        self.profile.__enter__()

    def __exit__(self, *error):
        stats = torch.cuda.memory_stats()
        self.profile.__exit__(*error)
        path = tempfile.mktemp(suffix=".json")
        self.profile.export_chrome_trace(path)
        totals, first = [0], None
        for event in json.load(open(path))["traceEvents"]:
            if event.get("name") == "[memory]" and event["args"]["Device Type"] == 0:
                if first is None:
                    first = event["args"]["Total Allocated"] - event["args"]["Bytes"]
                totals.append(event["args"]["Total Allocated"] - first)
        os.remove(path)
        peaks.append({"phase": self.name, "allocated": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"],
                      "host": max(totals), "after": stats["allocated_bytes.all.current"]})
        torch.cuda.reset_peak_memory_stats()
        if rank == 0:
            json.dump(peaks, open(os.environ["PEAKS"], "w"), indent=1)


def phased(owner, name, phase):
    inner = getattr(owner, name)

    @functools.wraps(inner)
    def outer(*given, **named):
        with Phase(phase):
            return inner(*given, **named)
    setattr(owner, name, outer)


def note(name):
    stats = torch.cuda.memory_stats()
    peaks.append({"phase": name, "allocated": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"]})
    torch.cuda.reset_peak_memory_stats()


class Steps(transformers.TrainerCallback):
    def on_train_begin(self, *given, **named):
        note("before")

    def on_step_begin(self, *given, **named):
        note("between")

    def on_step_end(self, *given, **named):
        note("step")


Trainer = transformers.Trainer
phased(Trainer, "save_model", "save")
phased(Trainer, "_save_optimizer_and_scheduler", "save_optimizer")
phased(Trainer, "_load_optimizer_and_scheduler", "resume_optimizer")
phased(Trainer, "_load_from_checkpoint", "resume_model")
phased(Trainer, "evaluate", "evaluate")
phased(transformers.trainer, "deepspeed_load_checkpoint", "resume")

torch.manual_seed(0)
config = transformers.LlamaConfig(**CONFIG)
base = os.path.join(OUT, "base")
if rank == 0 and not os.path.exists(os.path.join(base, "config.json")):
    with torch.device("cpu"):
        transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(base)
quantized = None
if KIND == "qlora":
    quantized = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                                bnb_4bit_compute_dtype=torch.bfloat16, bnb_4bit_quant_storage=torch.bfloat16)
arguments = transformers.TrainingArguments(
    output_dir=os.path.join(OUT, "run"), per_device_train_batch_size=BATCH, per_device_eval_batch_size=BATCH, max_steps=3 if RESUME else 2, bf16=True,
    save_strategy="steps", save_steps=2, eval_strategy="steps", eval_steps=2, logging_steps=10, report_to="none", dataloader_pin_memory=False,
    **json.loads(os.environ.get("ARGUMENTS", "{}")))
with Phase("load"):
    named = {"device_map": {"": torch.cuda.current_device()}} if quantized and not os.environ.get("ACCELERATE_USE_FSDP") and not os.environ.get("ACCELERATE_USE_DEEPSPEED") else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16, quantization_config=quantized, **named)
if KIND != "full":
    import peft
    with Phase("adapter"):
        model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"),
                                    autocast_adapter_dtype=os.environ.get("ADAPTERS") != "bf16")
data = [{"input_ids": list(range(LENGTH)), "labels": list(range(LENGTH))}] * 64
trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data[: 4 * BATCH], callbacks=[Steps()])
trainer.train(resume_from_checkpoint=os.path.join(OUT, "run", "checkpoint-2") if RESUME else None)
note("end")
if rank == 0:
    json.dump(peaks, open(os.environ["PEAKS"], "w"), indent=1)
