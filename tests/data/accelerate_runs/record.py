"""Allocator statistics of real `accelerate` runs, rank 0, on a CUDA device that computes nothing.

usage: run.sh python record.py cases.json > recorded.json     (run.sh: the null device of the memory recordings)

A case names a configuration file of accelerate, a config.json and the workload. Each runs in a process of its own: the
environment is what `accelerate launch` makes of the file, the process group is torch's "fake" backend.
"""
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


def run(case):
    environment, world = launched(case["accelerate"])
    os.environ.update(environment)
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    import torch
    import torch.testing._internal.distributed.fake_pg as fake
    torch.distributed.init_process_group("fake", rank=0, world_size=world, store=fake.FakeStore())
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
