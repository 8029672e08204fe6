"""Exports the models of nets.py, and writes down what PyTorch itself takes to train them: record.py SHARDSCOPE.

Needs torch for CUDA, no GPU. Each case runs train.py under `shardscope record`: PyTorch, its runtimes and its allocator are
real, and only the device is not."""
import json
import os
import subprocess
import sys
import tempfile

import nets

HERE = os.path.dirname(os.path.abspath(__file__))
EXPORT = os.path.join(HERE, "..", "..", "..", "examples", "pytorch", "export_model.py")
CASES = [(model, runtime, precision, checkpoint)
         for model, runtimes in {"gated": ("ddp",), "convolutional": ("ddp", "fsdp2"), "encoder": ("ddp", "fsdp1", "fsdp2")}.items()
         for runtime in runtimes for precision in ("fp32", "bf16_mixed") for checkpoint in ("none", "full")
         if (checkpoint == "none" or model == "encoder") and (model, runtime, precision) != ("convolutional", "fsdp2", "bf16_mixed")]


def export(model):
    inputs = [part for text in nets.INPUTS[model] for part in ("--inputs", text)]
    subprocess.run([sys.executable, EXPORT, "--factory", f"nets:{model}", *inputs, "--batch", str(nets.BATCH), "--seq", str(nets.SEQUENCE),
                    "-o", f"{model}.json"], check=True, cwd=HERE)


def recorded(shardscope, model, runtime, precision, checkpoint):
    with tempfile.TemporaryDirectory() as folder:
        command = [shardscope, "record", "--world", "8", "--rank", "0", "--time", "sync", "-o", os.path.join(folder, "run"), "--json", "--",
                   "torchrun", "--nproc-per-node", "8", os.path.join(HERE, "train.py"), model, runtime, precision,
                   *(["checkpoint"] if checkpoint == "full" else [])]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    steps = json.loads(answer[answer.index("{"):])["steps"]
    return {"model": model, "runtime": runtime, "precision": precision, "checkpointing": checkpoint,
            "steps": [{"allocated": step["memory"]["peak_allocated_bytes"], "active": step["memory"]["peak_active_bytes"]} for step in steps[:2]]}


def main(shardscope):
    for model in nets.INPUTS:
        export(model)
    rows = [recorded(shardscope, *case) for case in CASES]
    with open(os.path.join(HERE, "recorded.json"), "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


main(sys.argv[1])
