#!/usr/bin/env python3
"""Peak memory of published runs that follow PyTorch's runtimes, predicted and compared.

usage: published_memory.py SHARDSCOPE PUBLISHED_RUNS.csv

Every run of FSDP, FSDP2, DeepSpeed or a single GPU with a measured peak is taken, whatever comes of it. What a source does
not say is assumed for the whole source (SOURCES), never for a single row. The figure that is compared is the reserved bytes
of the highest step, or, where the source says that its figure is nvidia-smi's, those and what is outside the allocator.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

RUNTIMES = {"FSDP2": "fsdp2", "FSDP": "fsdp1", "DeepSpeed": "deepspeed", "single": "ddp"}

# What holds for all rows of a source: options, and whether its figure includes what is outside the allocator.
SOURCES = {
    "torchtitan": (["--precision", "bf16_mixed", "--loss", "outside", "--optimizer-implementation", "fused",
                    "--layers", "torchtitan"], False),
    "InternEvo": (["--precision", "bf16_mixed", "--seq", "2048"], True),
    "Qwen": (["--precision", "bf16_mixed"], True),
}
CHECKPOINTING = {"selective": "selective", "full": "full", "": "none", "none": "none"}


def source_of(row):
    return next((name for name in SOURCES if name in row["source"]), None)


def is_ours(row):
    """FSDP, DeepSpeed's ZeRO or one GPU, without pipeline or tensor parallelism."""
    return (row["measured_peak_mem_gib"] and row["strategy"].split()[0] in RUNTIMES and row["pp"] == "1"
            and row["tp"] == "1")


def config_of(row):
    is_qwen = row["model"].startswith("Qwen")
    return {"model_type": "qwen2" if is_qwen else "llama",
            "architectures": ["Qwen2ForCausalLM" if is_qwen else "LlamaForCausalLM"],
            "vocab_size": int(row["vocab"]), "hidden_size": int(row["hidden"]),
            "intermediate_size": int(row["ffn"]), "num_hidden_layers": int(row["layers"]),
            "num_attention_heads": int(row["heads"]), "num_key_value_heads": int(row["kv_heads"]),
            "max_position_embeddings": 8192, "tie_word_embeddings": False}


def arguments_of(row):
    options, outside = SOURCES[source_of(row)]
    arguments = ["--runtime", RUNTIMES[row["strategy"].split()[0]], "--world", row["gpus"], "--batch",
                 row["micro_batch"], "--accumulate", row["grad_accum"] or "1", "--attention", "flash", "--cluster",
                 "h100_sxm"] + options
    if row["seq"]:
        arguments += ["--seq", row["seq"]]
    if "float8" in row["precision"]:
        arguments += ["--float8", "tensorwise"]
    if row["compile"] == "yes":
        # In 2024 torchtitan left the loss out: compiling it caused errors of CUDA.
        arguments += ["--compile", "blocks" if "_202412_" in row["source"] else "blocks+loss"]
    kept = CHECKPOINTING[row["act_ckpt"].split(" ")[0].split("(")[0]]
    return arguments + ["--checkpointing", kept], outside


def predicted_gib(program, row, folder):
    path = os.path.join(folder, "config.json")
    with open(path, "w") as file:
        json.dump(config_of(row), file)
    arguments, outside = arguments_of(row)
    cluster = os.path.join(folder, "roomy.json")
    done = subprocess.run([program, "simulate", "--model", path, "--json", "--quiet"] +
                          [cluster if a == "h100_sxm" else a for a in arguments], capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip()
    answer = json.loads(done.stdout)
    reserved = max(step["memory"]["peak_reserved_bytes"] for step in answer["steps"])
    return (reserved + (answer["memory"]["outside_bytes"] if outside else 0)) / 2**30, ""


def write_roomy(folder):
    """The H100 with memory for every row: figures of memory alone are compared."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../sim/profiles/h100_sxm.json")) as file:
        profile = json.load(file)
    profile["memory"]["value"] = "1 TB"
    with open(os.path.join(folder, "roomy.json"), "w") as file:
        json.dump(profile, file)


def main():
    program, published = sys.argv[1:]
    errors = {}
    with tempfile.TemporaryDirectory() as folder, open(published) as file:
        write_roomy(folder)
        for row in filter(is_ours, csv.DictReader(file)):
            measured = float(row["measured_peak_mem_gib"])
            predicted, why = predicted_gib(program, row, folder)
            head = f"{source_of(row):10} {row['model']:14} {row['strategy'][:18]:18} {row['gpus']:>4} x {row['seq'] or '2048':>4}"
            if predicted is None:
                print(f"{head}  {why}")
                continue
            error = predicted / measured - 1
            errors.setdefault(source_of(row), []).append(abs(error))
            print(f"{head}  {predicted:6.1f} GiB, measured {measured:5.1f}  {error:+7.1%}")
    for source, values in errors.items():
        print(f"{source}: {len(values)} rows, mean absolute error {sum(values) / len(values):.1%}")


main()
