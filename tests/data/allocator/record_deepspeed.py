#!/usr/bin/env python3
"""Training steps under DeepSpeed in the CUDA caching allocator, in the format of memory/record.py.

    nullgpu/run.sh python record_deepspeed.py RECORD.PY --mode allocator --cases cases.json --out results/

RECORD.PY is the recorder of the folder `memory`. A case has strategy "deepspeed" and its configuration under
"deepspeed"; the loop is engine(batch), engine.backward(loss), engine.step().
"""
import importlib.util
import logging
import os
import sys

spec = importlib.util.spec_from_file_location("record", sys.argv.pop(1))
rec = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rec)
import torch
import torch.nn.functional as F

os.environ.setdefault("DS_ACCELERATOR", "cuda")
import deepspeed
import deepspeed.runtime.zero.stage3, deepspeed.runtime.zero.stage_1_and_2, deepspeed.runtime.bf16_optimizer  # noqa

rec.DEFAULTS["deepspeed"] = {}


class AsRankZero:
    """The fake group sends nothing: what rank 0 would have sent is what this rank has."""

    def __getattr__(self, name):
        return (lambda *a, **k: 0) if name == "get_rank" else getattr(deepspeed.comm, name)


deepspeed.runtime.zero.utils.dist = AsRankZero()
# Stage 3 formats its arguments for a message that nobody sees, parameters among them; printing a tensor allocates
# by its values, and here there are none.
torch.Tensor.__repr__ = lambda self, **_: "tensor"


_barrier = torch.distributed.barrier


def barrier_as_nccl(*args, **kwargs):
    """The operator takes a tensor, which lies on the device where the group is NCCL's; the fake group's does not."""
    torch.empty(1, dtype=torch.uint8, device=rec.DEV)
    return _barrier(*args, **kwargs)


torch.distributed.barrier = barrier_as_nccl


class Step(rec.Step):
    def setup(self):
        if self.c["strategy"] != "deepspeed":
            return super().setup()
        c = self.c
        torch.distributed.init_process_group("fake", rank=c["rank"], world_size=c["world"],
                                             store=torch.testing._internal.distributed.fake_pg.FakeStore())
        os.environ.update(LOCAL_RANK="0", LOCAL_SIZE=str(c["world"]), RANK=str(c["rank"]),
                          WORLD_SIZE=str(c["world"]), MASTER_ADDR="localhost", MASTER_PORT="29501")
        logging.disable(logging.WARNING)
        deepspeed.init_distributed(dist_backend="fake", auto_mpi_discovery=False, verbose=False,
                                   dist_init_required=False)
        self.raw, blocks, self.cfg = rec.build_model(c)
        self.shapes = sum(p.numel() for p in self.raw.parameters())
        if c["ac"]:
            rec.wrap(self.raw, blocks, {**c, "strategy": "none"})
        config = {"train_micro_batch_size_per_gpu": c["B"], "gradient_accumulation_steps": c["accum"],
                  "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
                  "steps_per_print": 10 ** 9, **c["deepspeed"]}
        optimizer = rec.make_optimizer([p for p in self.raw.parameters() if p.requires_grad], c)
        self.model, self.opt, _, _ = deepspeed.initialize(model=self.raw, optimizer=optimizer, config=config)
        B, T = c["B"], c["T"]
        self.vocab = self.cfg.vocab_size
        self.batch = [(torch.zeros(B, T, dtype=torch.int64, device=rec.DEV),
                       torch.zeros(B, T, dtype=torch.int64, device=rec.DEV)) for _ in range(c["accum"])]

    def run(self, probe):
        c = self.c
        if c["strategy"] != "deepspeed":
            return super().run(probe)
        engine, V = self.model, self.vocab
        probe("after_init")
        for it in range(c["iters"]):
            self.it = it + 1
            probe("iteration_start")
            for mb in range(c["accum"]):
                ids, labels = self.batch[mb]
                sfx = "" if c["accum"] == 1 else f"_{mb + 1}"
                self.phase = "forward"
                if c["loss"] == "model":
                    out = engine(ids, labels=labels)
                    loss = out.loss
                    if not c["hold_logits"]:
                        del out
                    probe("after_forward" + sfx)
                else:
                    out = engine(ids).logits
                    probe("after_forward" + sfx)
                    self.phase = "loss"
                    loss = F.cross_entropy(out.view(-1, V).float(), labels.view(-1))
                    if not c["hold_logits"]:
                        del out
                probe("after_loss" + sfx)
                self.phase = "backward"
                engine.backward(loss)
                probe("after_backward" + sfx)
                if not c["hold_logits"]:
                    del loss
                if mb < c["accum"] - 1:
                    engine.step()
            self.phase = "step"
            engine.step()
            probe("after_step")
            probe("after_zero_grad")
            probe("iteration_end")


rec.Step = Step
if __name__ == "__main__":
    rec.main()
