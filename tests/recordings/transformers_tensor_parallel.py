"""Steps of transformers' Trainer with a model that from_pretrained divided by its own tp_plan and fsdp_plan: collectives, and what PyTorch's caching
allocator held at most.

    shardscope record --world W --rank R --time zero --cluster h100_sxm -- python transformers_tensor_parallel.py CASE.json OUT.json [observe]

CASE.json: "config" (config.json of the model), "tensor", "shard", "replicate" (sizes of DistributedConfig), "mixed" (its fsdp_mixed_precision), "dtype" of the
weights, "args" (of TrainingArguments), "batch", "length", "loop": "plain" for what the Trainer does with the model alone. With `observe` collectives of each step are written, else peaks: an observer of operators keeps
tensors longer. Rows of collectives: kind, group, dtype, elements that this rank puts in, elements that it holds afterwards."""
import contextlib
import json
import os
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.distributed_c10d as c10d  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass  # noqa: E402
from transformers.distributed import DistributedConfig  # noqa: E402

KINDS = {"allreduce_": "all_reduce", "allreduce_coalesced_": "all_reduce", "_allgather_base_": "all_gather", "allgather_": "all_gather",
         "allgather_into_tensor_coalesced_": "all_gather", "_reduce_scatter_base_": "reduce_scatter", "broadcast_": "broadcast",
         "reduce_scatter_tensor_coalesced_": "reduce_scatter", "alltoall_base_": "all_to_all", "all_reduce": "all_reduce", "all_reduce_": "all_reduce",
         "all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter", "all_to_all_single": "all_to_all",
         "shard_dim_alltoall": "all_to_all"}
SHORT = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.int64: "int64", torch.float64: "fp64", torch.int32: "int32", torch.uint8: "uint8"}
PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor)


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value for tensor in flat(part)] if isinstance(value, (list, tuple)) else []


def group_names(case):
    """Ranks of this rank's groups, by the name of the mesh's axis."""
    sizes = [case["replicate"], case["shard"], case["tensor"]]
    mesh = torch.arange(dist.get_world_size()).reshape(sizes)
    own = tuple((mesh == dist.get_rank()).nonzero()[0].tolist())
    names = {}
    for axis, name in enumerate(("replicate", "shard", "tensor")):
        ranks = mesh[tuple(slice(None) if i == axis else at for i, at in enumerate(own))].tolist()
        if len(ranks) > 1:
            names.setdefault(tuple(ranks), name)
    return names


class Observer(TorchDispatchMode):
    def __init__(self, names):
        super().__init__()
        self.names, self.rows = names, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if any(is_traceable_wrapper_subclass(a) for a in flat(list(args)) + flat(list(kwargs.values()))) or any(t not in PLAIN for t in types):
            return NotImplemented
        space, _, name = func._schema.name.partition("::")
        out = func(*args, **kwargs)
        if space not in ("c10d", "_c10d_functional", "_dtensor") or name not in KINDS:
            return out
        if any(isinstance(t, FakeTensor) or t.is_meta for t in flat(list(args))):
            return out
        given = {x.name: v for x, v in zip(func._schema.arguments, args)} | kwargs
        group = given.get("process_group")
        group = c10d._resolve_process_group(given["group_name"]) if group is None else dist.ProcessGroup.unbox(group)
        ins = next((flat(given[key]) for key in ("input_tensor", "input", "inputs", "input_tensors", "tensors", "tensor") if key in given), [])
        outs = flat(out) if space != "c10d" else next((flat(given[key]) for key in ("output_tensor", "output", "outputs", "output_tensors") if key in given), ins)
        self.rows.append([KINDS[name], self.names.get(tuple(dist.get_process_group_ranks(group)), "world"), SHORT.get(ins[0].dtype, str(ins[0].dtype)),
                          sum(t.numel() for t in ins), sum(t.numel() for t in outs)])
        return out


class Steps(transformers.TrainerCallback):
    def __init__(self, observer):
        self.observer, self.peaks, self.rows = observer, [], []

    def on_step_begin(self, *given, **named):
        torch.cuda.reset_peak_memory_stats()
        if self.observer:
            self.observer.rows.clear()

    def on_step_end(self, *given, **named):
        stats = torch.cuda.memory_stats()
        self.peaks.append({name: stats[f"{name}_bytes.all.peak"] for name in ("allocated", "active", "reserved")})
        if self.observer:
            self.rows.append(list(self.observer.rows))


def plain_loop(trainer, case, steps):
    """What the Trainer does with the model, without the small tensors of its batches and metrics."""
    model = trainer.accelerator.prepare_model(trainer.model, device_placement=False, evaluation_mode=True)
    trainer.create_optimizer()
    trainer._sync_replicated_trainable_parameters(model)
    model.train()
    if trainer.args.activation_checkpointing:
        model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    ids, labels = (torch.zeros(case["batch"], case["length"], dtype=torch.int64, device="cuda") for _ in range(2))
    for _ in range(3):
        steps.on_step_begin()
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        del loss
        trainer._clip_grad_norm(model)
        trainer.optimizer.step()
        model.zero_grad()
        steps.on_step_end()


def main():
    case, observe = json.load(open(sys.argv[1])), len(sys.argv) > 3
    arguments = transformers.TrainingArguments(output_dir=tempfile.mkdtemp(), report_to="none", max_steps=3, save_strategy="no", logging_strategy="no",
                                               disable_tqdm=True, per_device_train_batch_size=case["batch"], **case["args"])
    torch.backends.cuda.enable_cudnn_sdp(False)
    model_config = transformers.AutoConfig.for_model(**case["config"])
    dtype = getattr(torch, case["dtype"])
    with tempfile.TemporaryDirectory() as folder:
        whole = transformers.AutoModelForCausalLM.from_config(model_config, dtype=dtype)
        model_config.architectures = [type(whole).__name__]
        model_config.save_pretrained(folder)  # save_pretrained of the model writes on rank 0 alone
        weights = {name: tensor.contiguous() for name, tensor in whole.state_dict().items() if not (model_config.tie_word_embeddings and name == "lm_head.weight")}
        save_file(weights, os.path.join(folder, "model.safetensors"), {"format": "pt"})
        del whole, weights
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, distributed_config=DistributedConfig(
            tp_size=case["tensor"], fsdp_size=case["shard"], dp_replicate_size=case["replicate"], fsdp_mixed_precision=case["mixed"]))
    after_init = torch.cuda.memory_allocated()
    observer = Observer(group_names(case)) if observe else None
    steps = Steps(observer)
    tokens = [[5] * case["length"]] * 64
    from datasets import Dataset
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=Dataset.from_dict({"input_ids": tokens, "labels": tokens}), callbacks=[steps])
    with observer or contextlib.nullcontext():
        if case.get("loop") == "plain":
            plain_loop(trainer, case, steps)
        else:
            trainer.train()
    json.dump({"after_init": after_init, "peaks": steps.peaks, "collectives": steps.rows}, open(sys.argv[2], "w"))


main()
