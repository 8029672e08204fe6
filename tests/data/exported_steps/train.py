"""Three training steps of a model of nets.py: train.py MODEL RUNTIME PRECISION [checkpoint]. For `shardscope record`."""
import os
import re
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import nets

BLOCKS = ("GatedLayer", "Sequential", "TransformerEncoderLayer")


def tensor_of(text):
    name, dtype, sizes = re.fullmatch(r"(\w+)=(\w+)\[(.*)\]", text).groups()
    known = {"B": nets.BATCH, "T": nets.SEQUENCE}
    shape = [known[size] if size in known else int(size) for size in sizes.split(",")]
    return name, torch.zeros(shape, dtype=getattr(torch, dtype), device="cuda")


def is_block(module):
    return type(module).__name__ in BLOCKS


def wrapped(model, runtime, mixed, checkpoint):
    low = torch.bfloat16 if mixed else None
    if runtime == "fsdp2":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=low, reduce_dtype=low, output_dtype=low)
        if checkpoint:
            apply_activation_checkpointing(model, check_fn=is_block)
        for module in model.modules():
            if is_block(module):
                fully_shard(module, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        return model
    if runtime == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        classes = {type(module) for module in model.modules() if is_block(module)}
        precision = MixedPrecision(param_dtype=low, reduce_dtype=low, buffer_dtype=low) if mixed else None
        model = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy(classes), mixed_precision=precision,
                                         device_id=torch.cuda.current_device())
    elif runtime == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
    if checkpoint:
        apply_activation_checkpointing(model, check_fn=is_block)
    return model


def loss_of(outputs):
    if isinstance(outputs, dict):
        return outputs["loss"]
    return outputs if outputs.numel() == 1 else outputs.float().mean()


def main(name, runtime, precision, checkpoint=""):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    mixed = precision == "bf16_mixed"
    model = wrapped(getattr(nets, name)().cuda().train(), runtime, mixed, checkpoint)
    batch = dict(tensor_of(text) for text in nets.INPUTS[name])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    autocast = torch.autocast("cuda", dtype=torch.bfloat16, enabled=mixed and runtime == "ddp")
    for _ in range(3):
        with autocast:
            loss = loss_of(model(**batch))
        loss.backward()
        del loss
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


main(*sys.argv[1:])
