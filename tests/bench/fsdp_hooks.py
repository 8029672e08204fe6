#!/usr/bin/env python3
"""Measures what FSDP's Python code takes of the host around a unit, beside the same model without FSDP.

    torchrun --nproc-per-node 2 fsdp_hooks.py [--fsdp1] [--checkpoints]

As zero3_hooks.py: a Llama of 8 layers and 64 columns on the CPU over gloo, by processor time of the thread that calls it, median of
24 micro-batches. Each block is a unit, and the root. Operators that FSDP adds, collectives among them, are counted below autograd and
taken off at the time of an operator of the same model without FSDP. What is left is divided by the units' forwards and backwards.
Needs torch and transformers.
"""
import argparse

import torch
import torch.distributed as dist

from zero3_hooks import LAYERS, median_of_micro_batches, model, operators


def wrapped(sharded, fsdp1):
    if not fsdp1:
        from torch.distributed.fsdp import fully_shard

        for layer in sharded.model.layers:
            fully_shard(layer)
        return fully_shard(sharded)
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    return FullyShardedDataParallel(sharded, auto_wrap_policy=ModuleWrapPolicy({type(sharded.model.layers[0])}), use_orig_params=True,
                                    sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=torch.device("cpu"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fsdp1", action="store_true")
    parser.add_argument("--checkpoints", action="store_true", help="each block is checkpointed, not reentrant")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    settings = argparse.Namespace(lora=False, frozen=False, no_checkpoints=not options.checkpoints, not_reentrant=True)

    def measured(one):
        backward = torch.Tensor.backward
        times = median_of_micro_batches(one, backward, lambda _: one.zero_grad(set_to_none=True))
        return times, operators(one, backward)

    without, operators_without = measured(model(settings))
    with_units, operators_with = measured(wrapped(model(settings), options.fsdp1))
    if dist.get_rank() != 0:
        return
    for name, (forward, backward) in (("without FSDP", without), ("FSDP", with_units)):
        print(f"{name}: forward {forward:.1f} ms, backward {backward:.1f} ms")
    operator = sum(without) / operators_without
    print(f"operators without FSDP {operators_without:.0f}, {1e3 * operator:.1f} us each; with FSDP {operators_with:.0f}")
    # The root is never checkpointed.
    passes = LAYERS * (3 if options.checkpoints else 2) + 2
    alone = sum(with_units) - sum(without) - operator * (operators_with - operators_without)
    print(f"a pass of a unit without its operators: {1e3 * alone / passes:.0f} us")


if __name__ == "__main__":
    main()
