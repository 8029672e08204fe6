"""Reads a configuration file with the real accelerate or DeepSpeed and prints what they take it for, as JSON.

usage: read_converted.py accelerate|deepspeed FILE
"""
import contextlib
import io
import json
import logging
import os
import sys

logging.disable(logging.WARNING)


def read_accelerate(path):
    import torch

    # The readers ask for a GPU and use none.
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 8
    torch.cuda.current_device = lambda: 0
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env

    arguments = launch_command_parser().parse_args(["--config_file", path, "train.py"])
    arguments, _, _ = _validate_launch_command(arguments)
    if not arguments.use_fsdp:
        return {"version": 0, "strategy": "NO_SHARD"}
    environment = prepare_multi_gpu_env(arguments)
    os.environ.update({key: str(value) for key, value in environment.items()})
    plugin = FullyShardedDataParallelPlugin()
    if plugin.fsdp_version == 1:
        return {"version": 1, "strategy": plugin.sharding_strategy.name.lstrip("_")}
    replicas = int(environment.get("PARALLELISM_CONFIG_DP_REPLICATE_SIZE", 1))
    names = ["SHARD_GRAD_OP", "FULL_SHARD"] if replicas == 1 else ["HYBRID_SHARD_ZERO2", "HYBRID_SHARD"]
    return {"version": 2, "strategy": names[bool(plugin.reshard_after_forward)]}


def read_deepspeed(path):
    from deepspeed.runtime.config import DeepSpeedConfig

    with open(path) as file:
        config = json.load(file)
    # Whoever trains fills in "auto"; DeepSpeed itself wants numbers.
    config = {key: 1 if value == "auto" else value for key, value in config.items()}
    zero = DeepSpeedConfig(config).zero_config
    return {"stage": int(zero.stage), "hpz": zero.zero_hpz_partition_size}


with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    result = {"accelerate": read_accelerate, "deepspeed": read_deepspeed}[sys.argv[1]](sys.argv[2])
print(json.dumps(result))
