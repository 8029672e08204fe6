"""Two steps of transformers' Trainer, and what PyTorch's caching allocator held at most in each.

    shardscope record --world 4 --time zero --cluster h100_sxm -- accelerate launch --config_file A.yaml record.py case.json out.json

case.json is a row of steps_of_four.json with the Trainer's arguments in "args", and a folder of random weights in "folder".
"""
import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from datasets import Dataset  # noqa: E402

case = json.load(open(sys.argv[1]))
loading = {"dtype": getattr(torch, case["dtype"])}
if case["quant"]:
    loading["quantization_config"] = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16,
        bnb_4bit_quant_storage=getattr(torch, case["storage"]), bnb_4bit_use_double_quant=case["double"])
arguments = transformers.TrainingArguments(output_dir="out", report_to="none", max_steps=2, save_strategy="no",
                                           logging_strategy="no", disable_tqdm=True, **case["args"])
checkpoints = case["args"]["gradient_checkpointing"]
model = transformers.AutoModelForCausalLM.from_pretrained(case["folder"], **loading)
prepares = case["quant"] and case["prepare"]
if prepares:
    model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=checkpoints)
if case["lora"]:
    model = peft.get_peft_model(model, peft.LoraConfig(**case["lora"], task_type="CAUSAL_LM"))
    if checkpoints and not prepares:
        model.enable_input_require_grads()
tokens = [[5] * case["length"]] * 64
peaks = []


class Peaks(transformers.TrainerCallback):
    def on_step_begin(self, *given, **named):
        torch.cuda.reset_peak_memory_stats()

    def on_step_end(self, *given, **named):
        stats = torch.cuda.memory_stats()
        peaks.append({"allocated": stats["allocated_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"]})


data = Dataset.from_dict({"input_ids": tokens, "labels": tokens})
transformers.Trainer(model=model, args=arguments, train_dataset=data, callbacks=[Peaks()]).train()
if os.environ.get("RANK", "0") == "0":
    json.dump(peaks, open(sys.argv[2], "w"))
