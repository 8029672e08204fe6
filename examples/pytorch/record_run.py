#!/usr/bin/env python3
"""Records a few real steps of PyTorch: a trace of each rank, memory snapshots and the settings, in one folder a run.

    OUTPUT/<model>-<runtime>-<ranks>/
      rank<R>.pt.trace.json.gz    torch.profiler (Kineto), with shapes and memory
      rank<R>.snapshot.pickle.gz  torch.cuda.memory's history and segments (GPUs only)
      settings.json               what ran: everything that a prediction of it needs

Shardscope reads all three:

    shardscope report OUTPUT/gpt2_124m-fsdp2-1
    shardscope compare --predicted OUTPUT/gpt2_124m-fsdp2-1/settings.json --trace OUTPUT/gpt2_124m-fsdp2-1/rank0.pt.trace.json.gz

Weights and tokens are random, nothing is downloaded. Without a GPU the ranks are processes of one thread over gloo.
More ranks than GPUs share them: over NCCL as hosts of their own where that works, else over gloo. Their times mean
nothing then; what they allocate and call does.
"""
import argparse
import contextlib
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

EXAMPLES = """examples:
  record_run.py --model gpt2_124m --runtime fsdp2 fsdp1 ddp -o recorded
      the three of them on all GPUs of this machine, or on 2 processes of its CPU
  record_run.py --model llama_1b --runtime fsdp2 --ranks 1 --batch 2 --seq 1024 --precision bf16_mixed -o recorded
  record_run.py --config path/to/config.json --runtime fsdp1 --ranks 2 --seq 16 --device cpu -o recorded
"""

# config.json of what --model names. Without dropout, so that a run can be repeated.
MODELS = {
    "gpt2_124m": {"model_type": "gpt2", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "llama_1b": {"model_type": "llama", "vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632,
                 "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
                 "max_position_embeddings": 2048, "rms_norm_eps": 1e-05, "tie_word_embeddings": False},
}
RUNTIMES = ("fsdp2", "fsdp1", "ddp")
OPTIMIZER = {"name": "AdamW", "lr": 1e-3}


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", choices=sorted(MODELS), help="a model that this script knows")
    what.add_argument("--config", metavar="FILE", help="config.json of any causal language model of transformers")
    p.add_argument("--runtime", nargs="+", choices=RUNTIMES, default=list(RUNTIMES), help="one run each (default: all)")
    p.add_argument("--ranks", type=int, help="processes (default: one for each GPU, or 2 without one)")
    p.add_argument("--batch", type=int, default=2, help="sequences of a rank and micro-batch (default: 2)")
    p.add_argument("--seq", type=int, default=512, help="tokens of a sequence (default: 512)")
    p.add_argument("--accumulate", type=int, default=1, metavar="K", help="micro-batches of a step (default: 1)")
    p.add_argument("--precision", choices=("fp32", "bf16_mixed"), default="fp32",
                   help="bf16_mixed: parameters bfloat16, reductions float32, by FSDP's own policy (default: fp32)")
    p.add_argument("--clip", type=float, metavar="NORM", help="clip gradients")
    p.add_argument("--checkpointing", action="store_true", help="every block in a checkpoint_wrapper")
    p.add_argument("--steps", type=int, default=2, help="steps in the trace, after two that are not (default: 2)")
    p.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    p.add_argument("--backend", choices=("auto", "nccl", "gloo"), default="auto")
    p.add_argument("--timeout", type=float, default=300, metavar="S", help="seconds that a run may take (default: 300)")
    p.add_argument("-o", "--output", default="recorded", metavar="FOLDER")
    p.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    return p.parse_args()


# ------------------------------------------------------------------------------------------------- one rank
def build_model(config_values, device):
    """The model on its device, and its blocks: what transformers says must not be split."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.manual_seed(7)
    values = dict(config_values)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    model.train()
    kinds = set(model._no_split_modules or [])
    return model, [name for name, module in model.named_modules() if type(module).__name__ in kinds]


def checkpoint_blocks(model, blocks):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    for name in blocks:
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, checkpoint_wrapper(model.get_submodule(name)))


def wrap(model, blocks, case, device):
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    if "ddp" in case:
        from torch.nn.parallel import DistributedDataParallel
        return DistributedDataParallel(model, **case["ddp"])
    if "fsdp1" in case:
        from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
        from torch.distributed.fsdp.wrap import CustomPolicy
        units = {id(model.get_submodule(name)) for name in blocks}
        options = case["fsdp1"]
        return FullyShardedDataParallel(
            model, auto_wrap_policy=CustomPolicy(lambda module: id(module) in units),
            sharding_strategy=ShardingStrategy[options["strategy"]], use_orig_params=True,
            mixed_precision=MixedPrecision(**dtypes(options["mp"])) if "mp" in options else None, device_id=torch.device(device))
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    arguments = {"mesh": init_device_mesh(torch.device(device).type, (case["world"],), mesh_dim_names=("shard",))}
    if "mp" in case["fsdp2"]:
        arguments["mp_policy"] = MixedPrecisionPolicy(**dtypes(case["fsdp2"]["mp"]))
    for name in blocks:
        fully_shard(model.get_submodule(name), **arguments)
    return fully_shard(model, **arguments)


def dtypes(names):
    import torch
    return {key: getattr(torch, name) for key, name in names.items()}


def clip(model, case):
    import torch
    if "fsdp1" in case:
        model.clip_grad_norm_(case["clip"])
    else:
        torch.nn.utils.clip_grad_norm_(model.parameters(), case["clip"])


class Loop:
    """The training loop; a step is one call."""

    def __init__(self, model, optimizer, case, vocabulary, rank, device):
        self.model, self.optimizer, self.case, self.device = model, optimizer, case, device
        self.vocabulary, self.rank, self.steps, self.losses = vocabulary, rank, 0, []

    def __call__(self):
        import torch
        for micro in range(self.case["micro_batches"]):
            generator = torch.Generator().manual_seed(10_000 * self.rank + 100 * self.steps + micro)
            ids = torch.randint(0, self.vocabulary, (self.case["batch"], self.case["seq"]), generator=generator).to(self.device)
            loss = self.model(input_ids=ids, labels=ids, use_cache=False).loss
            (loss / self.case["micro_batches"]).backward()
            self.losses.append(loss.detach())
        if "clip" in self.case:
            clip(self.model, self.case)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.steps += 1


def record_steps(loop, case, device, folder, rank):
    from torch.profiler import ProfilerActivity, profile, schedule
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.startswith("cuda") else [])
    p = case["profiler"]
    with profile(activities=activities, record_shapes=True, profile_memory=True, with_flops=True, with_modules=True,
                 schedule=schedule(wait=p["wait"], warmup=p["warmup"], active=p["active"], repeat=1),
                 on_trace_ready=lambda profiler: export(profiler, folder, rank)) as profiler:
        for _ in range(p["wait"] + p["warmup"] + p["active"]):
            loop()
            profiler.step()


def export(profiler, folder, rank):
    """Without the host's name and the file's first place, so that the trace may be given away."""
    profiler.export_chrome_trace(f"trace.{rank}.json")
    with open(f"trace.{rank}.json") as plain:
        text = re.sub(r'"host_name": "[^"]*"', '"host_name": "host"', plain.read())
    with gzip.open(f"{folder}/rank{rank}.pt.trace.json.gz", "wt") as packed:
        packed.write(text)


@contextlib.contextmanager
def memory_history(device, folder, rank):
    """Of a GPU's allocator, from before the model is built; without stacks, which are most of a snapshot's bytes."""
    import torch
    if not device.startswith("cuda"):
        yield
        return
    torch.cuda.memory._record_memory_history(context=None, max_entries=1_000_000)
    yield
    torch.cuda.synchronize()
    path = f"{folder}/rank{rank}.snapshot.pickle"
    torch.cuda.memory._dump_snapshot(path)
    torch.cuda.memory._record_memory_history(enabled=None)
    with open(path, "rb") as plain, gzip.open(path + ".gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    os.remove(path)


def clean(name):
    for part in ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "module."):
        name = name.replace(part, "")
    return name.removesuffix("._fsdp_wrapped_module").removeprefix("_fsdp_wrapped_module")


def units_of(model, case):
    """As the library itself holds them: name, parameters and elements of each."""
    if "fsdp1" in case:
        handles = [(name, module._handle.flat_param) for name, module in model.named_modules() if getattr(module, "_handle", None)]
        return [{"name": clean(name), "parameters": [clean(n) for n in flat._fqns], "numel": sum(s.numel() for s in flat._shapes)}
                for name, flat in handles]
    if "fsdp2" in case:
        from torch.distributed.fsdp import FSDPModule
        groups = [(name, group) for name, module in model.named_modules() if isinstance(module, FSDPModule)
                  for group in module._get_fsdp_state()._fsdp_param_groups]
        return [{"name": clean(name), "parameters": [clean(p._param_fqn) for p in group.fsdp_params],
                 "numel": sum(p._orig_size.numel() for p in group.fsdp_params)} for name, group in groups]
    names = {id(parameter): name for name, parameter in model.module.named_parameters()}
    return [{"name": f"bucket{bucket.index()}", "parameters": [names[id(p)] for p in bucket.parameters()],
             "numel": bucket.buffer().numel()} for bucket in model.reducer._get_zeros_like_grad_buckets()]


def settings_of(run, model, optimizer, blocks, losses, backend, device):
    import torch
    import transformers
    case, base = run["case"], getattr(model, "module", model) if "ddp" in run["case"] else model
    runtime = next(name for name in RUNTIMES if name in case)
    config = {k: v for k, v in base.config.to_diff_dict().items() if k != "transformers_version"}
    simple = (int, float, bool, tuple, type(None))
    return {
        "name": case["name"], "case": case, "strategy": runtime, "world": case["world"], "model_class": run["model_class"],
        "config": config, "attention": base.config._attn_implementation, "batch": case["batch"], "seq": case["seq"],
        "micro_batches": case["micro_batches"], "precision": case[runtime].get("mp", "float32"),
        "optimizer": {"name": type(optimizer).__name__, **{k: v for k, v in optimizer.defaults.items() if isinstance(v, simple)}},
        "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "backend": backend,
        "device": torch.device(device).type, "device_name": torch.cuda.get_device_name() if device.startswith("cuda") else None,
        "ranks_share_a_device": run["shares_device"], "threads_per_rank": torch.get_num_threads(),
        "losses_of_rank0": [loss.item() for loss in losses], "wrap": None if runtime == "ddp" else blocks,
        "units": units_or_why(model, case)}


def units_or_why(model, case):
    """They stand behind names that PyTorch may change, and no prediction needs them."""
    try:
        return units_of(model, case)
    except Exception as error:
        return f"not known: {type(error).__name__}: {error}"


def rank_main(rank):
    import torch
    import torch.distributed as dist
    with open("run.json") as f:
        run = json.load(f)
    case, folder = run["case"], run["folder"]
    device = "cpu"
    if run["device"] == "cuda":
        device = f"cuda:{rank % torch.cuda.device_count()}"
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(run["backend"], init_method=f"file://{os.getcwd()}/store", rank=rank, world_size=case["world"])
    with memory_history(device, folder, rank):
        model, blocks = build_model(run["config"], device)
        run["model_class"], vocabulary = type(model).__name__, model.config.vocab_size
        if case["activation_checkpoint"]:
            checkpoint_blocks(model, blocks)
        model = wrap(model, blocks, case, device)
        arguments = dict(case["optimizer"])
        optimizer = getattr(torch.optim, arguments.pop("name"))(model.parameters(), **arguments)
        loop = Loop(model, optimizer, case, vocabulary, rank, device)
        record_steps(loop, case, device, folder, rank)
    if rank == 0:
        settings = settings_of(run, model, optimizer, blocks, loop.losses, run["backend"], device)
        with open(f"{folder}/settings.json", "w") as f:
            f.write("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in settings.items()) + "\n}\n")
    dist.barrier()
    dist.destroy_process_group()


# ------------------------------------------------------------------------------------------------ all ranks
def sharing_variables(rank):
    """Ranks of one GPU look like hosts of their own to NCCL, which refuses two ranks of one host on one GPU."""
    return {"NCCL_HOSTID": f"record-run-{rank}", "NCCL_ALGO": "Ring", "NCCL_IB_DISABLE": "1", "NCCL_MAX_CTAS": "2",
            "NCCL_MNNVL_ENABLE": "0", "NCCL_NET": "Socket", "NCCL_NVLS_ENABLE": "0", "NCCL_RAS_ENABLE": "0",
            "NCCL_SOCKET_IFNAME": "lo"}


def environment_of(rank, run):
    world = run["case"]["world"]
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank % max(run["gpus"], 1)),
                   "LOCAL_WORLD_SIZE": str(world), "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if run["backend"] == "gloo":
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if run["device"] == "cpu":
        environment["OMP_NUM_THREADS"] = "1"
    elif run["shares_device"]:
        environment.update(sharing_variables(rank))
    return environment


def run_ranks(run, timeout):
    """Runs all ranks in a folder of their own; gives what went wrong, or None."""
    with tempfile.TemporaryDirectory() as work:
        with open(f"{work}/run.json", "w") as f:
            json.dump(run, f)
        logs = [open(f"{work}/log.{rank}", "w+") for rank in range(run["case"]["world"])]
        command = [sys.executable, os.path.abspath(__file__), "--model", "gpt2_124m", "--rank"]
        ranks = [subprocess.Popen(command + [str(rank)], cwd=work, stdout=log, stderr=log, env=environment_of(rank, run))
                 for rank, log in enumerate(logs)]
        failed = wait_for(ranks, timeout)
        if failed is None:
            return None
        rank, why = failed
        logs[rank].seek(0)
        return f"rank {rank} {why}\n" + logs[rank].read()[-2000:]


def wait_for(ranks, timeout):
    """The first rank that failed and why; the others are ended, which would wait for it."""
    end = time.monotonic() + timeout
    try:
        while any(p.poll() is None for p in ranks):
            for rank, p in enumerate(ranks):
                if p.poll():
                    return rank, f"ended with code {p.returncode}"
            if time.monotonic() > end:
                return next(r for r, p in enumerate(ranks) if p.poll() is None), f"took longer than {timeout:g} s"
            time.sleep(0.1)
        return next(((rank, f"ended with code {p.returncode}") for rank, p in enumerate(ranks) if p.returncode), None)
    finally:
        for p in ranks:
            if p.poll() is None:
                p.kill()
            p.wait()


def case_of(arguments, model, runtime, world):
    options = {"fsdp1": {"strategy": "FULL_SHARD"}}.get(runtime, {})
    if arguments.precision == "bf16_mixed":
        options["mp"] = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
    case = {"name": f"{model}-{runtime}-{world}", "world": world, runtime: options, "batch": arguments.batch,
            "seq": arguments.seq, "micro_batches": arguments.accumulate, "activation_checkpoint": arguments.checkpointing,
            "optimizer": OPTIMIZER, "profiler": {"wait": 1, "warmup": 1, "active": arguments.steps}}
    if arguments.clip is not None:
        case["clip"] = arguments.clip
    return case


def backends(arguments, device, shares_device):
    """In the order in which they are tried."""
    if arguments.backend != "auto":
        return [arguments.backend]
    if device == "cpu":
        return ["gloo"]
    return ["nccl", "gloo"] if shares_device else ["nccl"]


def record(arguments, config, model, runtime):
    import torch
    gpus = torch.cuda.device_count() if arguments.device != "cpu" else 0
    if arguments.device == "cuda" and gpus == 0:
        return "PyTorch sees no GPU here; --device cpu"
    world = arguments.ranks or gpus or 2
    device = "cuda" if gpus else "cpu"
    shares_device = device == "cuda" and world > gpus
    case = case_of(arguments, model, runtime, world)
    folder = os.path.join(os.path.abspath(arguments.output), case["name"])
    why = None
    for backend in backends(arguments, device, shares_device):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        why = run_ranks({"case": case, "config": config, "folder": folder, "device": device, "gpus": gpus,
                         "backend": backend, "shares_device": shares_device}, arguments.timeout)
        if why is None:
            report(folder, case["name"], device, backend)
            return None
        why = f"over {backend}: {why}"
    shutil.rmtree(folder, ignore_errors=True)
    return why


def report(folder, name, device, backend):
    print(f"{name}: {device}, {backend}")
    for file in sorted(os.listdir(folder)):
        print(f"  {os.path.join(folder, file)}  {os.path.getsize(os.path.join(folder, file)) / 1000:.0f} kB")
    sys.stdout.flush()


def main():
    arguments = parse_arguments()
    if arguments.rank is not None:
        return rank_main(arguments.rank)
    if arguments.precision == "bf16_mixed" and "ddp" in arguments.runtime:
        sys.exit("record_run.py: DDP has no mixed precision of its own; leave ddp out of --runtime, or --precision fp32")
    model = arguments.model
    config = MODELS.get(model)
    if arguments.config:
        with open(arguments.config) as f:
            config = {k: v for k, v in json.load(f).items() if k not in ("architectures", "transformers_version")}
        model = config["model_type"]
    failed = 0
    for runtime in arguments.runtime:
        why = record(arguments, config, model, runtime)
        if why is not None:
            failed = 1
            print(f"{model}, {runtime}: nothing was recorded: {why}", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main()
