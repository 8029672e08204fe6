#!/usr/bin/env python3
"""Small checkpoints of a GPT-2, saved by the real libraries on CPUs, two ranks over gloo.

usage: record.py FOLDER [NAME...]

Every saved number is known: README.md beside this file says which.
"""
import json
import os
import shutil
import socket
import sys

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

WORLD = 2
CONFIG = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 15, "n_positions": 4, "n_embd": 6, "n_layer": 1,
          "n_head": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def values(number, shape, what):
    """What is saved of parameter `number`, counted from 0 in the order of named_parameters()."""
    element = torch.arange(shape.numel(), dtype=torch.float32).view(shape)
    value = number + element / 256
    return {"parameters": value, "exp_avg": -value, "exp_avg_sq": 2 * value}[what]


def make_model():
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(**CONFIG)).eval()


def numbered(model):
    return {name: (number, parameter.shape) for number, (name, parameter) in enumerate(model.named_parameters())}


def one_step(model):
    tokens = torch.arange(8).view(2, 4)
    return model(input_ids=tokens, labels=tokens).loss


def optimizer_of(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def sharded(model, version):
    """The model as accelerate's `prepare` wraps it on a GPU."""
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block
    if version == 2:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (WORLD,))
        for block in model.transformer.h:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model
    from functools import partial
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    return FSDP(model, auto_wrap_policy=partial(transformer_auto_wrap_policy, transformer_layer_cls={GPT2Block}), use_orig_params=True,
                device_id=torch.device("cpu"))


def accelerate(folder, state_dict_type, version):
    """save_state of accelerate under FSDP, which accelerate itself sets up on accelerators only."""
    from accelerate import Accelerator, FullyShardedDataParallelPlugin
    from accelerate.utils import DistributedType
    accelerator = Accelerator(cpu=True)
    model = make_model()
    rows = numbered(model)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(values(number, parameter.shape, "parameters"))
    model = sharded(model, version)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)     # steps that make the states, and change nothing
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    for _ in range(3):
        one_step(model).backward()
        optimizer.step()
    fill_states(model, optimizer, rows, version)
    plugin = FullyShardedDataParallelPlugin(fsdp_version=version, state_dict_type=state_dict_type, use_orig_params=True)
    accelerator.state.distributed_type, accelerator.state.fsdp_plugin = DistributedType.FSDP, plugin
    accelerator._models, accelerator._optimizers, accelerator._schedulers = [model], [optimizer], [schedule]
    accelerator.save_state(folder)


def fill_states(model, optimizer, rows, version):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict
    options = StateDictOptions(full_state_dict=True)
    state = get_optimizer_state_dict(model, optimizer, options=options)
    for name, of_one in state["state"].items():
        number, shape = rows[name]
        for what in ("exp_avg", "exp_avg_sq"):
            of_one[what] = values(number, shape, what)
    set_optimizer_state_dict(model, optimizer, state, options=options)


def plain(folder):
    """save_state of accelerate with DDP: model.safetensors, and the optimizer's states by the parameters' numbers."""
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=True)
    model = make_model()
    optimizer = optimizer_of(model)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(values(number, parameter.shape, "parameters"))
            optimizer.state[parameter] = {"step": torch.tensor(3.0)} | {
                what: values(number, parameter.shape, what) for what in ("exp_avg", "exp_avg_sq")}
    model, optimizer = accelerator.prepare(model, optimizer)
    accelerator.save_state(folder)


def set_value(optimizer, parameter, value, what):
    """The part that this rank has of a master weight or of a state."""
    from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state
    if hasattr(parameter, "ds_id"):    # stage 3
        if what == "parameters":
            safe_set_full_fp32_param(parameter, value)
        else:
            safe_set_full_optimizer_state(parameter, value, what)
        return
    place = parameter._hp_mapping
    if place is None:
        return
    flat = optimizer.single_partition_of_fp32_groups[place.param_group_index]
    target = flat if what == "parameters" else optimizer.optimizer.state[flat][what]
    to, of = place.hp_fragment_address, place.lp_fragment_address
    target.data.narrow(0, to.start, to.numel).copy_(value.flatten().narrow(0, of.start, of.numel))


def deepspeed(folder, stage, dtype="fp32", frozen=()):
    import deepspeed as ds
    ds.init_distributed(dist_backend="gloo")
    model = make_model()
    rows = numbered(model)
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            parameter.copy_(values(number, parameter.shape, "parameters"))
            parameter.requires_grad_(not any(word in name for word in frozen))
    config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True,
              "zero_force_ds_cpu_optimizer": False}
    if dtype == "bf16":
        config["bf16"] = {"enabled": True}
    groups = [{"params": [p for p in model.parameters() if p.requires_grad and p.ndim >= 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.requires_grad and p.ndim < 2], "weight_decay": 0.0}]
    engine, _, _, _ = ds.initialize(model=model, optimizer=torch.optim.AdamW(groups, lr=0.0), config=config)
    for _ in range(3):
        engine.backward(one_step(engine))
        engine.step()
    for name, parameter in engine.module.named_parameters():
        if parameter.requires_grad:
            number, shape = rows[name]
            for what in ("parameters", "exp_avg", "exp_avg_sq"):
                set_value(engine.optimizer, parameter, values(number, shape, what), what)
    engine.save_checkpoint(folder)


CASES = {
    "accelerate_fsdp1_sharded": lambda folder: accelerate(folder, "SHARDED_STATE_DICT", 1),
    "accelerate_fsdp1_full": lambda folder: accelerate(folder, "FULL_STATE_DICT", 1),
    "accelerate_fsdp2_sharded": lambda folder: accelerate(folder, "SHARDED_STATE_DICT", 2),
    "accelerate_fsdp2_full": lambda folder: accelerate(folder, "FULL_STATE_DICT", 2),
    "accelerate_ddp": plain,
    "deepspeed_zero1": lambda folder: deepspeed(folder, 1),
    "deepspeed_zero2": lambda folder: deepspeed(folder, 2, "bf16"),
    "deepspeed_zero3": lambda folder: deepspeed(folder, 3),
    "deepspeed_zero2_frozen": lambda folder: deepspeed(folder, 2, frozen=("wpe", "ln_f")),
    "deepspeed_zero3_frozen": lambda folder: deepspeed(folder, 3, frozen=("wpe", "ln_f")),
}


def run(rank, name, folder, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_WORLD_SIZE=str(WORLD),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    CASES[name](folder)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main():
    folder, names = sys.argv[1], sys.argv[2:] or list(CASES)
    for name in names:
        place = os.path.join(os.path.abspath(folder), name)
        shutil.rmtree(place, ignore_errors=True)
        mp.spawn(run, (name, place, free_port()), nprocs=WORLD)
        for left_out in ("zero_to_fp32.py", "zero_to_torch.py", "random_states_1.pkl"):
            if os.path.exists(os.path.join(place, left_out)):
                os.remove(os.path.join(place, left_out))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file, indent=1)


if __name__ == "__main__":
    main()
