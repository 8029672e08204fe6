#!/usr/bin/env python3
"""A training job moves between Shardscope and PyTorch, both ways, through torch.distributed.checkpoint.

usage: dcp_check.py SHARDSCOPE

PyTorch trains with FSDP2 (fully_shard, 2 ranks over gloo). A GPT-2 starts from the same weights on both sides. Exit code 77: torch or
transformers is absent. The environment's SHARDSCOPE_TORCH_PYTHON names a Python that has them.
"""
import json
import os
import subprocess
import sys
import tempfile

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
    from torch.distributed.fsdp import fully_shard
    from transformers import GPT2Config, GPT2LMHeadModel
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


def train(rank, folder, port, source, until, target, losses):
    """Trains up to step `until`: from `source`, a folder of DCP that was saved at step SAVED, or from the start; saves to `target`."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    model = GPT2LMHeadModel.from_pretrained(os.path.join(folder, "start"), attn_implementation="eager").eval()
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    groups = [{"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": DECAY},
              {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=1e-8)
    first = 0
    if source:
        first = SAVED
        model_state, optimizer_state = get_state_dict(model, optimizer)
        state = {"model": model_state, "optim": optimizer_state}
        dcp.load(state, checkpoint_id=source, planner=DefaultLoadPlanner(allow_partial_load=True))
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
    for step in range(first, until):
        inputs, targets = tokens_of(folder, step, rank)
        logits = model(inputs).logits
        loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            losses.append(mean.item() / RANKS)
        if target and step + 1 == SAVED:
            model_state, optimizer_state = get_state_dict(model, optimizer)
            dcp.save({"model": model_state, "optim": optimizer_state}, checkpoint_id=target)
    dist.destroy_process_group()


def free_port():
    import socket
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def in_pytorch(folder, source, until, target):
    with mp.Manager() as manager:
        losses = manager.list()
        mp.spawn(train, (folder, free_port(), source, until, target, losses), nprocs=RANKS)
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


def main():
    program = os.path.abspath(sys.argv[1])
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
        rest = [ours[step] for step in range(SAVED + 1, STEPS + 1)]
        torch_dcp, our_dcp = os.path.join(folder, "torch_dcp"), os.path.join(folder, "our_dcp")
        theirs = in_pytorch(folder, None, STEPS, torch_dcp)
        good = compare("both from the start", [ours[step] for step in range(1, STEPS + 1)], theirs)

        shardscope(program, folder, "checkpoint", "convert", f"run/checkpoints/step-{SAVED:08d}", "--to", "dcp", "-o", "our_dcp")
        resumed = in_pytorch(folder, our_dcp, STEPS, None)
        good = compare("saved here, resumed by PyTorch", resumed, rest) and good

        shardscope(program, folder, "checkpoint", "convert", "torch_dcp", "--to", "sharded", "--model", "start", "--next-token",
                   str(SAVED * RANKS * BATCH * SEQ), "-o", "imported")
        shardscope(program, folder, "train", "job.json", "--quiet", "-o", "next", "--resume", "imported")
        next_losses = losses_of(folder, "next")
        good = compare("saved by PyTorch, resumed here", [next_losses[step] for step in range(SAVED + 1, STEPS + 1)],
                       theirs[SAVED:]) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
