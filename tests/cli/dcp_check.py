#!/usr/bin/env python3
"""A training job moves between Shardscope and PyTorch's libraries, with the same next losses.

usage: dcp_check.py SHARDSCOPE [WAY...]

A GPT-2 starts from the same weights on both sides; PyTorch trains with 2 ranks over gloo. Ways, all in both directions but where it is said:
  fsdp2, fsdp1                torch.distributed.checkpoint
  accelerate1, accelerate2    Accelerator.save_state and load_state under FSDP1 and FSDP2, SHARDED_STATE_DICT
  full1, full2                the same with FULL_STATE_DICT; full1 only from here to there: what torch 2.15 saves on CPUs is wrong
  ddp                         the same under DDP
  trainer                     transformers' Trainer under DDP, resume_from_checkpoint
  trainer1, trainer2          the Trainer under FSDP1 and FSDP2, SHARDED_STATE_DICT
  trainer_full1, trainer_full2
                              the same with FULL_STATE_DICT; trainer_full1 only from here to there, for the same reason
  zero1, zero2, zero3         DeepSpeed, only from there to here
What is not DCP is resumed here as it is, by `train --resume FOLDER`. Exit code 77: torch or transformers is absent; ways whose library is
absent are passed over, saying so. The environment's SHARDSCOPE_TORCH_PYTHON names a Python that has them.
"""
import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from functools import partial

os.environ.setdefault("DS_ACCELERATOR", "cpu")
python = os.environ.get("SHARDSCOPE_TORCH_PYTHON")
if python and "SHARDSCOPE_DCP_CHECK" not in os.environ:
    os.execve(python, [python, *sys.argv], os.environ | {"SHARDSCOPE_DCP_CHECK": "1"})
try:
    import numpy as np
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    import torch.multiprocessing as mp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, get_cosine_schedule_with_warmup
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block
except ImportError as missing:
    print(f"skipped: {missing}; SHARDSCOPE_TORCH_PYTHON names a Python that has torch and transformers")
    sys.exit(77)

RANKS, BATCH, SEQ, SAVED, STEPS, TOLERANCE = 2, 2, 16, 6, 10, 2e-6
RATE, WARMUP, BETAS, DECAY, CLIP = 1e-3, 2, (0.9, 0.95), 0.1, 1.0


def rate_of(step):
    """As get_cosine_schedule_with_warmup has it."""
    if step < WARMUP:
        return RATE * step / WARMUP
    return RATE * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def tokens_of(folder, step, rank):
    with open(os.path.join(folder, "text.txt"), "rb") as file:
        text = file.read()
    begin = (step * RANKS + rank) * BATCH * SEQ
    take = lambda at: torch.tensor(list(text[at:at + BATCH * SEQ])).view(BATCH, SEQ)
    return take(begin), take(begin + 1)


def loss_of(model, inputs, targets):
    logits = model(inputs).logits
    return torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def mean_over_ranks(loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    return mean.item() / RANKS


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

    def set_rate(self, step):
        for group in self.optimizer.param_groups:
            group["lr"] = rate_of(step)

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
        dcp.load(state, checkpoint_id=source)
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])

    def save(self, target):
        dcp.save(self.state(), checkpoint_id=target)


def require_random_states():
    """What `checkpoint convert` writes: the job's seed, which is 1, and the steps done."""
    seed = 1 + SAVED
    same = (random.getstate() == random.Random(seed).getstate() and
            torch.equal(torch.get_rng_state(), torch.Generator().manual_seed(seed).get_state()) and
            all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), np.random.RandomState(seed).get_state())))
    if not same:
        sys.exit(f"the random states are not those of the seed {seed}")


def make_states(optimizer):
    """accelerate 1.15, and so the Trainer, loads no states into an optimizer that has none, under FSDP1 with SHARDED_STATE_DICT; neither
    from folders of its own."""
    for group in optimizer.param_groups:
        group["lr"] = 0.0
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()


class AccelerateTraining(Training):
    """Saved and loaded by accelerate. It sets FSDP up on accelerators only, so the model is wrapped as it does."""

    def __init__(self, model, version, kind="SHARDED_STATE_DICT"):
        from accelerate import Accelerator, FullyShardedDataParallelPlugin, PartialState
        from accelerate.utils import DistributedType
        super().__init__(model, version)
        self.kind = kind
        self.accelerator = Accelerator(cpu=True)
        self.accelerator.state.distributed_type = PartialState().distributed_type = DistributedType.FSDP
        self.accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(fsdp_version=version, state_dict_type=kind,
                                                                            use_orig_params=True)
        self.accelerator._models = [self.model]
        self.prepare_optimizer()

    def prepare_optimizer(self):
        """A schedule that accelerate has prepared makes a step for each process."""
        self.optimizer = self.accelerator.prepare_optimizer(self.optimizer)
        self.schedule = self.accelerator.prepare_scheduler(
            get_cosine_schedule_with_warmup(self.optimizer.optimizer, WARMUP * RANKS, STEPS * RANKS))

    def set_rate(self, step):
        """The schedule's, which load_state has put back."""

    def step(self, loss):
        super().step(loss)
        self.schedule.step()

    def save(self, target):
        self.accelerator.save_state(target)

    def load(self, source):
        if self.version == 1 and self.kind == "SHARDED_STATE_DICT":
            make_states(self.optimizer)
        self.accelerator.load_state(source)
        require_random_states()


class DdpTraining(AccelerateTraining):
    def __init__(self, model):
        from accelerate import Accelerator
        self.version = 0
        self.accelerator = Accelerator(cpu=True)
        self.optimizer = torch.optim.AdamW(groups_of(model), lr=RATE, betas=BETAS, eps=1e-8)
        self.model = self.accelerator.prepare_model(model)
        self.prepare_optimizer()


class DeepSpeedTraining:
    def __init__(self, model, stage):
        import deepspeed
        deepspeed.init_distributed(dist_backend="gloo")
        config = {"train_micro_batch_size_per_gpu": BATCH, "zero_optimization": {"stage": stage}, "gradient_clipping": CLIP,
                  "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False}
        optimizer = torch.optim.AdamW(groups_of(model), lr=RATE, betas=BETAS, eps=1e-8)
        self.model, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

    def set_rate(self, step):
        for group in self.model.optimizer.param_groups:
            group["lr"] = rate_of(step)

    def step(self, loss):
        self.model.backward(loss)
        self.model.step()

    def save(self, target):
        self.model.save_checkpoint(target)


class Sequences(torch.utils.data.Dataset):
    """The same batches in the same order: the Trainer gives batch n to rank n modulo the ranks."""

    def __init__(self, folder):
        with open(os.path.join(folder, "text.txt"), "rb") as file:
            self.text = list(file.read())

    def __len__(self):
        return STEPS * RANKS * BATCH

    def __getitem__(self, number):
        begin = number * SEQ
        return {"input_ids": torch.tensor(self.text[begin:begin + SEQ]), "targets": torch.tensor(self.text[begin + 1:begin + 1 + SEQ])}


class OrderedTrainer(Trainer):
    losses, needs_states = None, False

    def _load_optimizer_and_scheduler(self, checkpoint):
        if checkpoint and self.needs_states:
            make_states(self.optimizer)
        super()._load_optimizer_and_scheduler(checkpoint)

    def _load_rng_state(self, checkpoint):
        super()._load_rng_state(checkpoint)
        if checkpoint:
            require_random_states()

    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = loss_of(model, inputs["input_ids"], inputs["targets"])
        mean = mean_over_ranks(loss)
        if dist.get_rank() == 0:
            self.losses.append(mean)
        return loss


def fsdp_on_cpus():
    """accelerate uses FSDP on accelerators only: its state is made to say FSDP for processes on CPUs, too."""
    from accelerate.state import AcceleratorState, PartialState
    from accelerate.utils import DistributedType
    plain = AcceleratorState.__init__

    def with_fsdp(self, *arguments, fsdp_plugin=None, **more):
        plain(self, *arguments, fsdp_plugin=fsdp_plugin, **more)
        if fsdp_plugin:
            self.distributed_type = PartialState().distributed_type = DistributedType.FSDP
            self.device = PartialState().device = torch.device("cpu")  # FSDP1 takes no cpu:0
            self.fsdp_plugin = fsdp_plugin

    AcceleratorState.__init__ = with_fsdp


def train_by_trainer(model, folder, source, target, losses, fsdp=None):
    """`fsdp`: version and state_dict_type; none: DDP."""
    output = target or os.path.join(folder, "trainer_goes_on")
    more = {}
    if fsdp:
        fsdp_on_cpus()
        more = {"fsdp": True, "fsdp_config": {"version": fsdp[0], "state_dict_type": fsdp[1],
                                              "sync_module_states": False, "transformer_layer_cls_to_wrap": ["GPT2Block"]}}
    arguments = TrainingArguments(
        output, use_cpu=True, per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=RATE, adam_beta1=BETAS[0],
        adam_beta2=BETAS[1], weight_decay=DECAY, max_grad_norm=CLIP, lr_scheduler_type="cosine", warmup_steps=WARMUP, optim="adamw_torch",
        save_strategy="steps" if target else "no", save_steps=SAVED, report_to=[], disable_tqdm=True, remove_unused_columns=False,
        **more)
    trainer = OrderedTrainer(model, arguments, train_dataset=Sequences(folder))
    trainer.losses, trainer.model_accepts_loss_kwargs = losses, False
    trainer.needs_states = fsdp == (1, "SHARDED_STATE_DICT")
    trainer.train(resume_from_checkpoint=source)


TRAINER_FSDP = {"trainer1": (1, "SHARDED_STATE_DICT"), "trainer2": (2, "SHARDED_STATE_DICT"), "trainer_full1": (1, "FULL_STATE_DICT"),
                "trainer_full2": (2, "FULL_STATE_DICT")}
WAYS = {"fsdp2": partial(Training, version=2), "fsdp1": partial(Training, version=1),
        "accelerate1": partial(AccelerateTraining, version=1), "accelerate2": partial(AccelerateTraining, version=2),
        "full1": partial(AccelerateTraining, version=1, kind="FULL_STATE_DICT"),
        "full2": partial(AccelerateTraining, version=2, kind="FULL_STATE_DICT"),
        "ddp": DdpTraining, "trainer": train_by_trainer,
        **{way: partial(train_by_trainer, fsdp=fsdp) for way, fsdp in TRAINER_FSDP.items()},
        "zero1": partial(DeepSpeedTraining, stage=1), "zero2": partial(DeepSpeedTraining, stage=2),
        "zero3": partial(DeepSpeedTraining, stage=3)}
# For `checkpoint convert`: how a job of ours comes to a way; DeepSpeed's cannot be written.
WRITTEN = {"fsdp2": ["--to", "dcp"], "fsdp1": ["--to", "dcp"],
           "accelerate1": ["--to", "accelerate"], "accelerate2": ["--to", "accelerate", "--under", "fsdp"],
           "full1": ["--to", "accelerate", "--under", "fsdp_full"], "full2": ["--to", "accelerate", "--under", "fsdp_full"],
           "ddp": ["--to", "accelerate", "--under", "ddp"], "trainer": ["--to", "trainer", "--under", "ddp"],
           "trainer1": ["--to", "trainer"], "trainer2": ["--to", "trainer", "--under", "fsdp"],
           "trainer_full1": ["--to", "trainer", "--under", "fsdp_full"], "trainer_full2": ["--to", "trainer", "--under", "fsdp_full"]}
NOT_READ = {"full1", "trainer_full1"}
LIBRARY = {way: "accelerate" for way in ("accelerate1", "accelerate2", "full1", "full2", "ddp", "trainer", *TRAINER_FSDP)} | {
    way: "deepspeed" for way in ("zero1", "zero2", "zero3")}


def train(rank, way, folder, port, source, until, target, losses):
    """Trains up to step `until`: from `source`, a folder that was saved at step SAVED, or from the start; saves to `target`."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo")
    model = GPT2LMHeadModel.from_pretrained(os.path.join(folder, "start"), attn_implementation="eager").eval()
    if way.startswith("trainer"):
        WAYS[way](model, folder, source, target, losses)
    else:
        train_by_steps(WAYS[way](model), folder, rank, source, until, target, losses)
    dist.destroy_process_group()
    # Threads of torch 2.15 sometimes abort a process that unloads them ("terminate called without an active exception").
    sys.stdout.flush()
    os._exit(0)


def train_by_steps(training, folder, rank, source, until, target, losses):
    first = 0
    if source:
        first = SAVED
        training.load(source)
    for step in range(first, until):
        loss = loss_of(training.model, *tokens_of(folder, step, rank))
        mean = mean_over_ranks(loss)
        training.set_rate(step)
        training.step(loss)
        if rank == 0:
            losses.append(mean)
        if target and step + 1 == SAVED:
            training.save(target)


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


def from_here(way, program, folder, ours):
    """Saved here, converted, resumed there."""
    written = os.path.join(folder, "ours_for_" + way)
    shardscope(program, folder, "checkpoint", "convert", f"run/checkpoints/step-{SAVED:08d}", *WRITTEN[way], "-o", written)
    resumed = in_pytorch(way, folder, written, STEPS, None)
    return compare(f"{way}: saved here, resumed there", resumed, [ours[step] for step in range(SAVED + 1, STEPS + 1)])


def to_here(way, program, folder, ours):
    """Saved by a library; its folder is resumed here as it is, DCP's after a conversion."""
    saved = os.path.join(folder, way)
    theirs = in_pytorch(way, folder, None, STEPS, saved)
    good = compare(f"{way}: both from the start", [ours[step] for step in range(1, STEPS + 1)], theirs)
    if way.startswith("trainer"):
        saved = os.path.join(saved, f"checkpoint-{SAVED}")
    shardscope(program, folder, "checkpoint", "verify", saved)
    if way in LIBRARY:
        return resumes_here(way, program, folder, saved, theirs) and good
    shardscope(program, folder, "checkpoint", "convert", way, "--to", "sharded", "--model", "start", "--next-token",
               str(SAVED * RANKS * BATCH * SEQ), "-o", way + "_imported")
    return resumes_here(way + ", converted", program, folder, way + "_imported", theirs) and good


def resumes_here(what, program, folder, saved, theirs):
    run = f"next_{os.path.basename(saved)}"
    shardscope(program, folder, "train", "job.json", "--quiet", "-o", run, "--resume", saved)
    next_losses = losses_of(folder, run)
    return compare(f"{what}: saved there, resumed here", [next_losses[step] for step in range(SAVED + 1, STEPS + 1)], theirs[SAVED:])


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
                       "lr": {"kind": "hf_cosine", "peak": RATE, "warmup": WARMUP, "total": STEPS}, "clip": CLIP,
                       "optimizer": {"betas": BETAS, "eps": 1e-8, "weight_decay": DECAY},
                       "checkpoint": {"every": SAVED, "keep": 0}}, file)
        shardscope(program, folder, "train", "job.json", "--quiet", "-o", "run")
        ours = losses_of(folder, "run")
        good = True
        for way in ways:
            if way in LIBRARY and not importlib.util.find_spec(LIBRARY[way]):
                print(f"{way}: skipped, {LIBRARY[way]} is not installed")
                continue
            if way not in NOT_READ:
                good = to_here(way, program, folder, ours) and good
            if way in WRITTEN:
                good = from_here(way, program, folder, ours) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
