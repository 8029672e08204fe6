"""Allocator statistics of real `accelerate` runs, rank 0, on a CUDA device that computes nothing.

usage: run.sh python record.py cases.json > recorded.json     (run.sh: the null device of the memory recordings)

A case names a configuration file of accelerate, a config.json and the workload. Each runs in a process of its own: the
environment is what `accelerate launch` makes of the file, the process group is torch's "fake" backend.
"""
import copy
import json
import os
import sys

STATISTICS = ("allocated_bytes", "active_bytes", "reserved_bytes")


def launched(config_file):
    """The variables that `accelerate launch --config_file` gives its workers."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env
    args = launch_command_parser().parse_args(["--config_file", config_file, "train.py"])
    args, _, _ = _validate_launch_command(args)
    return prepare_multi_gpu_env(args), int(args.num_processes)


def answer_questions():
    """Values that the host would read from the device."""
    import torch
    import transformers.masking_utils as masks
    packed = masks.find_packed_sequence_indices

    def not_packed(position_ids):
        packed(position_ids)
    masks.find_packed_sequence_indices = not_packed
    torch.backends.cuda.enable_cudnn_sdp(False)

    def step(self, optimizer, state, *args, **kwargs):      # an infinity is never found
        for found in state["found_inf_per_device"].values():
            found.item()
        return optimizer.step(*args, **kwargs)
    torch.amp.GradScaler._maybe_opt_step = step


def communication_hook(model):
    """The fake group's own all-reduce gives no result, which DDP's reducer refuses."""
    import torch

    def hook(state, bucket):
        done = torch.futures.Future(devices=[torch.device("cuda", 0)])
        done.set_result(bucket.buffer())
        return done
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model.register_comm_hook(None, hook)


MODEL = []


def of_other_rank(own):
    """What rank 0 hears of states that it has no part of: with use_orig_params another rank has them."""
    from torch.distributed.fsdp import _common_utils, _optim_utils
    if isinstance(own, list) and own and isinstance(own[0], _optim_utils._OptimStateKey):
        return [_optim_utils._OptimStateKey(tuple(names), own[0].is_fsdp_managed)
                for names in _common_utils._get_param_to_fqns(MODEL[0]).values()]
    if isinstance(own, dict) and any(isinstance(info, _optim_utils.StateInfo) for info in own.values()):
        import torch
        state = _optim_utils._PosDimTensorInfo(torch.Size([1]), torch.float32)
        full = _optim_utils.StateInfo({name: state for name in ("exp_avg", "exp_avg_sq")}, {}, {})
        return {name: info if info.tensors else full for name, info in own.items()}
    return copy.copy(own)


def gather_own_object(objects, own, group=None, weights_only=False):
    """The fake group brings nothing from other ranks: each has what this one has. The tensors of sizes are those of
    NCCL's group; what the pickles weigh is left out."""
    import torch
    size = torch.zeros(1, dtype=torch.long, device="cuda")
    sizes = torch.zeros(torch.distributed.get_world_size(group), dtype=torch.long, device="cuda")
    del size, sizes
    for rank in range(len(objects)):
        objects[rank] = of_other_rank(own) if rank else copy.copy(own)
        shards = [copy.copy(shard) for shard in getattr(own, "shards_metadata", [])]
        for shard in shards:
            shard.placement = torch.distributed.remote_device._remote_device(f"rank:{rank}/{shard.placement.device()}")
        if shards:
            objects[rank].shards_metadata = shards


def state_dict_of(model, action):
    """FSDP1: Module.state_dict under FSDP.state_dict_type; FSDP2: get_model_state_dict."""
    from torch.distributed import fsdp
    if not isinstance(model, fsdp.FullyShardedDataParallel):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
        options = StateDictOptions(full_state_dict=action["type"] == "full", cpu_offload=action.get("offload", False),
                                   broadcast_from_rank0=action.get("broadcast", False))
        if action["do"] == "save":
            return get_model_state_dict(model, options=options)
        return set_model_state_dict(model, action["of"], options=options)
    config = {"full": fsdp.FullStateDictConfig, "local": fsdp.LocalStateDictConfig,
              "sharded": fsdp.ShardedStateDictConfig}[action["type"]](offload_to_cpu=action.get("offload", False))
    if "rank0_only" in action:
        config.rank0_only = action["rank0_only"]
    with fsdp.FullyShardedDataParallel.state_dict_type(
            model, fsdp.StateDictType[action["type"].upper() + "_STATE_DICT"], config):
        return model.state_dict() if action["do"] == "save" else model.load_state_dict(action["of"])


def optimizer_state_of(model, optimizer, action):
    """FSDP1: FSDP.optim_state_dict; FSDP2: get_optimizer_state_dict; both as accelerate's save_fsdp_optimizer asks."""
    from torch.distributed import fsdp
    offload, rank0_only = action.get("offload", False), action.get("rank0_only", False)
    if not isinstance(model, fsdp.FullyShardedDataParallel):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
        return get_optimizer_state_dict(model, optimizer, options=StateDictOptions(
            full_state_dict=True, cpu_offload=offload, broadcast_from_rank0=rank0_only))
    with fsdp.FullyShardedDataParallel.state_dict_type(
            model, fsdp.StateDictType.FULL_STATE_DICT,
            fsdp.FullStateDictConfig(offload_to_cpu=offload, rank0_only=rank0_only),
            fsdp.FullOptimStateDictConfig(offload_to_cpu=offload, rank0_only=rank0_only)):
        return fsdp.FullyShardedDataParallel.optim_state_dict(model, optimizer)


def current():
    import torch
    statistics = torch.cuda.memory_stats()
    return {name: statistics[f"{name}.all.current"] for name in STATISTICS}


def state_dicts(model, optimizer, actions):
    """Each is saved, and loaded where the action says so: what is allocated before, at the peak and after."""
    import gc
    import torch
    rows = []
    for action in actions:
        saved = None
        for do in ("save", "load") if action.get("load") else ("save",):
            gc.collect()
            before = current()
            torch.cuda.reset_peak_memory_stats()
            if action.get("of") == "optimizer":
                result = optimizer_state_of(model, optimizer, action)
            else:
                result = state_dict_of(model, action | {"do": do, "of": saved})
            if do == "save":
                saved = result
            del result
            gc.collect()
            statistics = torch.cuda.memory_stats()
            rows.append({"before": before, "after": current(),
                         "peak": {name: statistics[f"{name}.all.peak"] for name in STATISTICS}})
    return rows


def run(case):
    environment, world = launched(case["accelerate"])
    os.environ.update(environment)
    rank = case.get("rank", 0)
    os.environ.update(RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    import torch
    import torch.testing._internal.distributed.fake_pg as fake
    torch.distributed.init_process_group("fake", rank=rank, world_size=world, store=fake.FakeStore())
    answer_questions()
    from accelerate import Accelerator
    from transformers import AutoConfig, AutoModelForCausalLM
    accelerator = Accelerator(gradient_accumulation_steps=case.get("accumulate", 1))
    with open(case["model"]) as file:
        config = AutoConfig.for_model(**json.load(file))
    config.use_cache = False
    dtype = getattr(torch, case.get("dtype", "float32"))
    model = AutoModelForCausalLM.from_config(config, dtype=dtype).train()
    if accelerator.is_fsdp2:
        model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    else:       # an optimizer that is made before keeps the parameters that FSDP1 flattens
        model = accelerator.prepare(model)
        optimizer = accelerator.prepare(torch.optim.AdamW(model.parameters()))
    communication_hook(model)
    batches = [[torch.zeros(case["batch"], case["seq"], dtype=torch.int64, device="cuda") for _ in range(2)]
               for _ in range(accelerator.gradient_accumulation_steps)]
    result = {"after_init": torch.cuda.memory_allocated(), "iterations": []}
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        for ids, labels in batches:
            with accelerator.accumulate(model):
                loss = model(input_ids=ids, labels=labels).loss
                accelerator.backward(loss)
                del loss
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        statistics = torch.cuda.memory_stats()
        result["iterations"].append({name: statistics[f"{name}.all.peak"] for name in STATISTICS})
    if "state_dicts" in case:
        torch.distributed.all_gather_object = gather_own_object
        torch.distributed.distributed_c10d._get_pg_default_device = lambda group=None: torch.device("cuda")  # NCCL's
        for module in list(sys.modules.values()):   # this rank's part, as often as there are ranks, does not make a whole
            for check in ("validate_non_overlapping_shards_metadata", "check_tensor"):
                if getattr(module, "__name__", "").startswith("torch.distributed._shard") and hasattr(module, check):
                    setattr(module, check, lambda *unused: None)
        MODEL.append(model)
        result["state_dicts"] = state_dicts(model, optimizer, case["state_dicts"])
    return result


def main():
    if len(sys.argv) > 2:
        with open(sys.argv[1]) as file:
            case = json.load(file)[sys.argv[2]]
        sys.stdout.flush()
        out = os.dup(1)
        os.dup2(2, 1)
        result = run(case)
        os.write(out, json.dumps(result).encode())
        os._exit(0)         # the null device's threads do not always end
    import subprocess
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    for name, case in cases.items():
        done = subprocess.run([sys.executable, __file__, sys.argv[1], name], stdout=subprocess.PIPE, check=True)
        cases[name] = case | {"recorded": json.loads(done.stdout)}
    print(json.dumps(cases, indent=1))


main()
