#!/usr/bin/env python3
"""Peak memory of published runs that follow PyTorch's runtimes, predicted and compared.

usage: published_memory.py SHARDSCOPE PUBLISHED_RUNS.csv ...

Every run of FSDP, FSDP2, DeepSpeed or a single GPU with a measured peak is taken, whatever comes of it, and torchtitan's with
tensor, context and pipeline parallelism. What a source does not say is assumed for the whole source (SOURCES), never for a
single row. The figure that is compared is the reserved bytes
of the highest step, or, where the source says that its figure is nvidia-smi's, those and what is outside the allocator.
"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

RUNTIMES = {"FSDP2": "fsdp2", "FSDP": "fsdp1", "DeepSpeed": "deepspeed", "single": "ddp"}

# What holds for all rows of a source: options, and whether its figure includes what is outside the allocator. torchtitan's
# run_llama_train.sh (run_train.sh) sets the allocator.
SOURCES = {
    "torchtitan": (["--precision", "bf16_mixed", "--loss", "outside", "--layers", "torchtitan",
                    "--allocator", "expandable_segments:True"], False),
    "InternEvo": (["--precision", "bf16_mixed", "--seq", "2048"], True),
    "Qwen": (["--precision", "bf16_mixed"], True),
}
CHECKPOINTING = {"selective": "selective", "full": "full", "": "none", "none": "none"}


def source_of(row):
    return next((name for name in SOURCES if name in row["source"]), None)


def context_ranks(row):
    stated = re.search(r"\bCP ?(\d+)", row["strategy"])
    return int(stated.group(1)) if stated else 1


def is_parallel(row):
    return row["tp"] != "1" or row["pp"] != "1" or context_ranks(row) > 1


def is_ours(row):
    """FSDP, DeepSpeed's ZeRO or one GPU; more than that only under torchtitan."""
    if not row["measured_peak_mem_gib"]:
        return False
    if is_parallel(row):
        return source_of(row) == "torchtitan"
    return row["strategy"].split()[0] in RUNTIMES


def config_of(row):
    is_qwen = row["model"].startswith("Qwen")
    return {"model_type": "qwen2" if is_qwen else "llama",
            "architectures": ["Qwen2ForCausalLM" if is_qwen else "LlamaForCausalLM"],
            "vocab_size": int(row["vocab"]), "hidden_size": int(row["hidden"]),
            "intermediate_size": int(row["ffn"]), "num_hidden_layers": int(row["layers"]),
            "num_attention_heads": int(row["heads"]), "num_key_value_heads": int(row["kv_heads"]),
            "max_position_embeddings": 8192, "tie_word_embeddings": False}


def parallel_arguments(row):
    """torchtitan's trainer. A pipeline has as many micro-batches as ranks (pipeline_llama.py)."""
    stages, context, tensor = int(row["pp"]), context_ranks(row), int(row["tp"])
    shard = int(row["gpus"]) // (stages * context * tensor)
    accumulate = str(stages) if stages > 1 else row["grad_accum"] or "1"
    batch = row["micro_batch"] or str(int(row["global_batch"]) // (shard * stages))
    mesh = f"pipeline={stages},shard={shard},context={context},tensor={tensor}"
    return ["--runtime", "torchtitan", "--mesh", mesh, "--batch", batch, "--accumulate", accumulate]


def optimizer_of(row):
    """AdamW is fused in torchtitan since 2025 (config_manager.py)."""
    if source_of(row) != "torchtitan":
        return []
    return ["--optimizer-implementation", "foreach" if "_202412_" in row["source"] else "fused"]


def kept_by(row):
    return CHECKPOINTING[row["act_ckpt"].split(" ")[0].split("(")[0]]


def compiled(row):
    """In 2024 torchtitan left the loss out: compiling it caused errors of CUDA."""
    if row["compile"] != "yes" or context_ranks(row) > 1:
        return []
    return ["--compile", "blocks" if "_202412_" in row["source"] else "blocks+loss"]


def float8(row):
    """Not predicted with context parallelism, and with pipelines of several stages a rank."""
    if "float8" not in row["precision"] or context_ranks(row) > 1:
        return []
    return ["--float8", "rowwise" if "rowwise" in row["precision"] else "tensorwise"]


def arguments_of(row):
    options, outside = SOURCES[source_of(row)]
    if is_parallel(row):
        arguments = parallel_arguments(row)
    else:
        arguments = ["--runtime", RUNTIMES[row["strategy"].split()[0]], "--world", row["gpus"], "--batch",
                     row["micro_batch"], "--accumulate", row["grad_accum"] or "1"]
    arguments += ["--attention", "flash", "--cluster", "h100_sxm"] + options
    if row["seq"]:
        arguments += ["--seq", row["seq"]]
    return arguments + compiled(row) + float8(row) + optimizer_of(row) + ["--checkpointing", kept_by(row)], outside


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
    of_ranks = [rank["peak_reserved_bytes"] for rank in (answer.get("pipeline") or {}).get("ranks", [])]
    reserved = max([step["memory"]["peak_reserved_bytes"] for step in answer["steps"]] + of_ranks)
    return (reserved + (answer["memory"]["outside_bytes"] if outside else 0)) / 2**30, ""


def write_roomy(folder):
    """The H100 with memory for every row: figures of memory alone are compared."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../sim/profiles/h100_sxm.json")) as file:
        profile = json.load(file)
    profile["memory"]["value"] = "1 TB"
    with open(os.path.join(folder, "roomy.json"), "w") as file:
        json.dump(profile, file)


def rows_of(tables):
    for table in tables:
        with open(table) as file:
            yield from csv.DictReader(file)


def main():
    program, *tables = sys.argv[1:]
    if not tables:
        sys.exit(__doc__)
    errors = {}
    with tempfile.TemporaryDirectory() as folder:
        write_roomy(folder)
        for row in filter(is_ours, rows_of(tables)):
            measured = float(row["measured_peak_mem_gib"])
            predicted, why = predicted_gib(program, row, folder)
            head = f"{source_of(row):10} {row['model']:14} {row['strategy'][:18]:18} {row['gpus']:>4} x {row['seq'] or '2048':>4}"
            if predicted is None:
                print(f"{head}  {why}")
                continue
            error = predicted / measured - 1
            errors.setdefault(source_of(row), []).append(abs(error))
            print(f"{head}  {predicted:6.1f} GiB, measured {measured:5.1f}  {error:+7.1%}" +
                  ("  (without float8)" if "float8" in row["precision"] and not float8(row) else "") +
                  ("  (eager)" if row["compile"] == "yes" and not compiled(row) else ""))
    for source, values in errors.items():
        print(f"{source}: {len(values)} rows, mean absolute error {sum(values) / len(values):.1%}")


main()
