#!/usr/bin/env python3
"""A training job moves between Shardscope and PyTorch's libraries, with the same next losses.

usage: dcp_check.py SHARDSCOPE [WAY...]

A GPT-2 starts from the same weights on both sides; PyTorch trains with 2 ranks over gloo. Ways: fsdp2 and fsdp1, through
torch.distributed.checkpoint both ways; accelerate1 and accelerate2, save_state under FSDP1 and FSDP2; zero1, zero2 and zero3, DeepSpeed.
The last five are resumed here as they are, by `train --resume FOLDER`. Exit code 77: torch or transformers is absent; ways whose library
is absent are passed over, saying so. The environment's SHARDSCOPE_TORCH_PYTHON names a Python that has them.
"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from functools import partial

os.environ.setdefault("DS_ACCELERATOR", "cpu")
python = os.environ.get("SHARDSCOPE_TORCH_PYTHON")
if python and "SHARDSCOPE_DCP_CHECK" not in os.environ:
    os.execve(python, [python, *sys.argv], os.environ | {"SHARDSCOPE_DCP_CHECK": "1"})
try:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    import torch.multiprocessing as mp
    from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block
except ImportError as missing:
    print(f"skipped: {missing}; SHARDSCOPE_TORCH_PYTHON names a Python that has torch and transformers")
    sys.exit(77)

RANKS, BATCH, SEQ, SAVED, STEPS, TOLERANCE = 2, 2, 16, 6, 10, 2e-6
RATE, BETAS, DECAY, CLIP = 1e-3, (0.9, 0.95), 0.1, 1.0


def tokens_of(folder, step, rank):
    with open(os.path.join(folder, "text.txt"), "rb") as file:
        text = file.read()
    begin = (step * RANKS + rank) * BATCH * SEQ
    take = lambda at: torch.tensor(list(text[at:at + BATCH * SEQ])).view(BATCH, SEQ)
    return take(begin), take(begin + 1)


def groups_of(model):
    return [{"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": DECAY},
            {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]


def named_groups_of(model):
    """FSDP1's parameters have lost their shapes: by the names of what decays."""
    decays = lambda name: name.endswith("weight") and ".ln_" not in name
    return [{"params": [p for name, p in model.named_parameters() if decays(name)], "weight_decay": DECAY},
            {"params": [p for name, p in model.named_parameters() if not decays(name)], "weight_decay": 0.0}]


class Training:
    """A model, its optimizer, and one step of both; under FSDP1 or FSDP2."""

    def __init__(self, model, version):
        if version == 2:
            mesh = init_device_mesh("cpu", (RANKS,))
            for block in model.transformer.h:
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
            groups = groups_of(model)
        else:
            model = FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"), auto_wrap_policy=partial(
                transformer_auto_wrap_policy, transformer_layer_cls={GPT2Block}))
            groups = named_groups_of(model)
        self.model, self.version = model, version
        self.optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=1e-8)

    def step(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        if self.version == 1:
            self.model.clip_grad_norm_(CLIP)
        else:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()

    def state(self):
        model_state, optimizer_state = get_state_dict(self.model, self.optimizer)
        return {"model": model_state, "optim": optimizer_state}

    def load(self, source):
        state = self.state()
        dcp.load(state, checkpoint_id=source, planner=DefaultLoadPlanner(allow_partial_load=True))
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])

    def save(self, target):
        dcp.save(self.state(), checkpoint_id=target)


class AccelerateTraining(Training):
    """Saved by accelerate. It sets FSDP up on accelerators only, so the model is wrapped as it does."""

    def save(self, target):
        from accelerate import Accelerator, FullyShardedDataParallelPlugin
        from accelerate.utils import DistributedType
        accelerator = Accelerator(cpu=True)
        accelerator.state.distributed_type = DistributedType.FSDP
        accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(fsdp_version=self.version, state_dict_type="SHARDED_STATE_DICT",
                                                                       use_orig_params=True)
        accelerator._models, accelerator._optimizers = [self.model], [self.optimizer]
        accelerator.save_state(target)


class DeepSpeedTraining:
    def __init__(self, model, stage):
        import deepspeed
        deepspeed.init_distributed(dist_backend="gloo")
        config = {"train_micro_batch_size_per_gpu": BATCH, "zero_optimization": {"stage": stage}, "gradient_clipping": CLIP,
                  "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
        optimizer = torch.optim.AdamW(groups_of(model), lr=RATE, betas=BETAS, eps=1e-8)
        self.model, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

    def step(self, loss):
        self.model.backward(loss)
        self.model.step()

    def save(self, target):
        self.model.save_checkpoint(target)


WAYS = {"fsdp2": partial(Training, version=2), "fsdp1": partial(Training, version=1),
        "accelerate1": partial(AccelerateTraining, version=1), "accelerate2": partial(AccelerateTraining, version=2),
        "zero1": partial(DeepSpeedTraining, stage=1), "zero2": partial(DeepSpeedTraining, stage=2),
        "zero3": partial(DeepSpeedTraining, stage=3)}
LIBRARY = {"accelerate1": "accelerate", "accelerate2": "accelerate", "zero1": "deepspeed", "zero2": "deepspeed", "zero3": "deepspeed"}


def train(rank, way, folder, port, source, until, target, losses):
    """Trains up to step `until`: from `source`, a folder of DCP that was saved at step SAVED, or from the start; saves to `target`."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo")
    model = GPT2LMHeadModel.from_pretrained(os.path.join(folder, "start"), attn_implementation="eager").eval()
    training = WAYS[way](model)
    first = 0
    if source:
        first = SAVED
        training.load(source)
    for step in range(first, until):
        inputs, targets = tokens_of(folder, step, rank)
        logits = training.model(inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
        mean = loss.detach().clone()
        training.step(loss)
        dist.all_reduce(mean)
        if rank == 0:
            losses.append(mean.item() / RANKS)
        if target and step + 1 == SAVED:
            training.save(target)
    dist.destroy_process_group()


def free_port():
    import socket
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def in_pytorch(way, folder, source, until, target):
    with mp.Manager() as manager:
        losses = manager.list()
        mp.spawn(train, (way, folder, free_port(), source, until, target, losses), nprocs=RANKS)
        return list(losses)


def shardscope(program, folder, *arguments):
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False,
                          env=os.environ | {"HOME": folder})
    if done.returncode != 0:
        sys.exit(f"shardscope {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def losses_of(folder, run):
    with open(os.path.join(folder, run, "metrics.jsonl"), encoding="utf-8") as file:
        return {line["step"]: line["loss"] for line in map(json.loads, file)}


def compare(what, ours, theirs):
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
    print(f"{what}: {len(ours)} losses, worst difference {worst:.1e} of {TOLERANCE:.0e}")
    return worst <= TOLERANCE


def through_dcp(way, program, folder, ours):
    """Both ways."""
    rest = [ours[step] for step in range(SAVED + 1, STEPS + 1)]
    saved = os.path.join(folder, way)
    theirs = in_pytorch(way, folder, None, STEPS, saved)
    good = compare(f"{way}: both from the start", [ours[step] for step in range(1, STEPS + 1)], theirs)
    resumed = in_pytorch(way, folder, os.path.join(folder, "our_dcp"), STEPS, None)
    good = compare(f"{way}: saved here, resumed there", resumed, rest) and good

    shardscope(program, folder, "checkpoint", "convert", way, "--to", "sharded", "--model", "start", "--next-token",
               str(SAVED * RANKS * BATCH * SEQ), "-o", way + "_imported")
    return resumes_here(way + ", converted", program, folder, way + "_imported", theirs) and good


def resumes_here(what, program, folder, saved, theirs):
    run = f"next_{os.path.basename(saved)}"
    shardscope(program, folder, "train", "job.json", "--quiet", "-o", run, "--resume", saved)
    next_losses = losses_of(folder, run)
    return compare(f"{what}: saved there, resumed here", [next_losses[step] for step in range(SAVED + 1, STEPS + 1)], theirs[SAVED:])


def as_it_is(way, program, folder):
    """Saved by a library, resumed here without a conversion; the place in the data follows from the steps."""
    saved = os.path.join(folder, way)
    theirs = in_pytorch(way, folder, None, STEPS, saved)
    shardscope(program, folder, "checkpoint", "verify", way)
    return resumes_here(way, program, folder, way, theirs)


def main():
    program, ways = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(WAYS)
    with tempfile.TemporaryDirectory(prefix="shardscope_dcp_") as folder:
        torch.manual_seed(1)
        config = GPT2Config(vocab_size=256, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                            attn_pdrop=0.0, initializer_range=0.1)
        GPT2LMHeadModel(config).save_pretrained(os.path.join(folder, "start"))
        with open(os.path.join(folder, "text.txt"), "w", encoding="utf-8") as file:
            file.write(" ".join(f"{i * i % 1009} of {i}" for i in range(2000)))
        with open(os.path.join(folder, "job.json"), "w", encoding="utf-8") as file:
            json.dump({"model": "start", "data": "text.txt", "steps": STEPS, "batch": BATCH, "seq": SEQ, "ranks": RANKS,
                       "threads": 1, "strategy": "full_shard", "device": "cpu", "precision": "fp32", "save_model": False,
                       "lr": {"peak": RATE}, "clip": CLIP,
                       "optimizer": {"betas": BETAS, "eps": 1e-8, "weight_decay": DECAY},
                       "checkpoint": {"every": SAVED, "keep": 0}}, file)
        shardscope(program, folder, "train", "job.json", "--quiet", "-o", "run")
        ours = losses_of(folder, "run")
        shardscope(program, folder, "checkpoint", "convert", f"run/checkpoints/step-{SAVED:08d}", "--to", "dcp", "-o", "our_dcp")
        good = True
        for way in ways:
            if way in LIBRARY and not importlib.util.find_spec(LIBRARY[way]):
                print(f"{way}: skipped, {LIBRARY[way]} is not installed")
            elif way in LIBRARY:
                good = as_it_is(way, program, folder) and good
            else:
                good = through_dcp(way, program, folder, ours) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
