#!/usr/bin/env python3
"""Training steps under FSDP1 and FSDP2 with parameters in the host's memory, in the format of memory/record.py.

    nullgpu/run.sh python record_offload.py RECORD.PY --mode allocator --cases cases.json --out results/

A case says fsdp1 {"cpu_offload": true}, or for fsdp2 cpu_offload "pinned" or "pageable".
"""
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("record", sys.argv.pop(1))
rec = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rec)
import torch.distributed.fsdp as fsdp

rec.DEFAULTS["cpu_offload"] = None
wrap_as_recorded = rec.wrap


def wrap(model, blocks, c):
    c = {**c, "fsdp1": dict(c["fsdp1"])}
    if c["fsdp1"].get("cpu_offload"):
        c["fsdp1"]["cpu_offload"] = fsdp.CPUOffload(True)
    plain = fsdp.fully_shard
    if c["cpu_offload"]:
        policy = fsdp.CPUOffloadPolicy(pin_memory=c["cpu_offload"] == "pinned")
        fsdp.fully_shard = lambda module, **kw: plain(module, offload_policy=policy, **kw)
    try:
        return wrap_as_recorded(model, blocks, c)
    finally:
        fsdp.fully_shard = plain


rec.wrap = wrap
if __name__ == "__main__":
    rec.main()
