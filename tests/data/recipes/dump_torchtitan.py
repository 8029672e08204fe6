#!/usr/bin/env python3
"""Prints as JSON what torchtitan's own configurations say: `dump_torchtitan.py > torchtitan_0_3.json`."""
import importlib
import inspect
import json
import pkgutil

import torchtitan.components.quantization as quantization

# Converters ask for a GPU when they are built. Here they only change the model's layers.
for module in pkgutil.iter_modules(quantization.__path__):
    loaded = importlib.import_module(f"{quantization.__name__}.{module.name}")
    if hasattr(loaded, "has_cuda_capability"):
        loaded.has_cuda_capability = lambda *_: True


def facts(config):
    training, parallelism, compiled = config.training, config.parallelism, config.compile
    checkpoint = config.activation_checkpoint
    return {
        "hf_assets_path": config.hf_assets_path,
        "local_batch_size": training.local_batch_size,
        "global_batch_size": training.global_batch_size,
        "seq_len": training.seq_len,
        "max_norm": training.max_norm,
        "tensor": parallelism.tensor_parallel_degree,
        "expert": parallelism.expert_parallel_degree,
        "pipeline": parallelism.pipeline_parallel_degree,
        "shard": parallelism.data_parallel_shard_degree,
        "context": parallelism.context_parallel_degree,
        "compile": compiled.components if compiled.enable else [],
        "checkpointing": type(checkpoint).__qualname__ if checkpoint else None,
        "optimizers": sorted({group.optimizer_name for group in config.optimizer.param_groups}),
    }


result = {}
for family in ("llama3", "deepseek_v3", "gpt_oss"):
    registry = importlib.import_module(f"torchtitan.models.{family}.config_registry")
    for name, function in vars(registry).items():
        if not inspect.isfunction(function) or function.__module__ != registry.__name__:
            continue
        needs = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        if not name.startswith("_") and not needs:
            result[f"torchtitan_0_3_{family}.py:{name}"] = facts(function())
print(json.dumps(result, indent=1))
