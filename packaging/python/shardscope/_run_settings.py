"""What a training script runs, found out from inside: the settings.json that a prediction of it needs.

Keys are those of examples/pytorch/record_run.py. What cannot be said there is a note.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Optional

WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.", "module.")
DEFAULT_BUCKET_MIB = 25
MIB = 1 << 20


class Seen:
    """The outermost forward calls of training, and whether gradients were clipped."""

    def __init__(self) -> None:
        self.model: Any = None
        self.shape: Optional[tuple[int, int]] = None
        self.micro_batches = 0
        self.is_clipped = False
        self.syncs: list[bool] = []
        self.autocast: Optional[str] = None
        self._depth = 0
        self._calls, self._calls_syncs = 0, [True]

    def watch(self, hooks: ExitStack) -> None:
        """Until `hooks` close."""
        from torch.nn.modules import module

        hooks.callback(module.register_module_forward_pre_hook(self._enter).remove)
        hooks.callback(module.register_module_forward_hook(self._leave, always_call=True).remove)
        self._watch_clipping(hooks)

    def _watch_clipping(self, hooks: ExitStack) -> None:
        """Neither PyTorch nor FSDP1 has a hook for it: its functions say so while the steps are recorded."""
        import torch
        from torch.nn.utils import clip_grad

        places: list[tuple[Any, str]] = [(torch.nn.utils, "clip_grad_norm_"), (clip_grad, "clip_grad_norm_")]
        if torch.distributed.is_available():
            from torch.distributed.fsdp import FullyShardedDataParallel

            places.append((FullyShardedDataParallel, "clip_grad_norm_"))
        for owner, name in places:
            original = getattr(owner, name)
            setattr(owner, name, self._noting(original))
            hooks.callback(setattr, owner, name, original)

    def _noting(self, original: Any) -> Any:
        def clip_grad_norm_(*arguments: Any, **named: Any) -> Any:
            self.is_clipped = True
            return original(*arguments, **named)

        return clip_grad_norm_

    def _enter(self, module: Any, arguments: Any) -> None:
        self._depth += 1
        if self._depth == 1 and module.training:
            self._begin_micro_batch(module)
        if self._depth == 1 or self.shape is None:
            self._note_shape(arguments)

    def _leave(self, *_: Any) -> None:
        self._depth -= 1

    def _begin_micro_batch(self, module: Any) -> None:
        import torch

        if self.model is None or sum(1 for _ in module.parameters()) >= sum(1 for _ in self.model.parameters()):
            self.model = module
        if module is self.model:
            if self._calls == 0:
                self._calls_syncs = []
            self._calls += 1
            self._calls_syncs.append(_syncs(module))
        for device in ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                self.autocast = str(torch.get_autocast_dtype(device)).removeprefix("torch.")

    def _note_shape(self, arguments: Any) -> None:
        """Of the first tensor of whole numbers with two dimensions: the tokens."""
        import torch
        from torch.utils._pytree import tree_leaves

        for value in tree_leaves(arguments):
            if isinstance(value, torch.Tensor) and value.dim() == 2 and value.dtype in (torch.int64, torch.int32):
                self.shape = (int(value.shape[0]), int(value.shape[1]))
                return

    def end_step(self, optimizer: Any) -> None:
        self.micro_batches, self.syncs = self._calls, self._calls_syncs
        self._calls = 0


def _syncs(module: Any) -> bool:
    """Will this micro-batch reduce its gradients?"""
    if hasattr(module, "require_backward_grad_sync"):
        return bool(module.require_backward_grad_sync)
    if hasattr(module, "_sync_gradients"):
        return bool(module._sync_gradients)
    groups = _fsdp2_groups(module)
    return all(bool(getattr(group, "reduce_grads", True)) for _, group in groups)


def _fsdp2_groups(model: Any) -> list[tuple[str, Any]]:
    """Units of FSDP2 with their parameter groups."""
    try:
        from torch.distributed.fsdp import FSDPModule
    except ImportError:
        return []
    groups = []
    for name, module in model.named_modules():
        if isinstance(module, FSDPModule):
            state: Any = module._get_fsdp_state()
            held = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
            groups += [(clean(name), group) for group in held if group is not None]
    return groups


def clean(name: str) -> str:
    """A module's name without what wrappers put into it."""
    for part in WRAPPERS:
        name = name.removeprefix(part) if part == "module." else name.replace(part, "")
    for part in WRAPPERS:
        name = name.removesuffix("." + part.rstrip(".")) if part != "module." else name
    return "" if name + "." in WRAPPERS else name


def dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _policy(policy: Any, names: tuple[str, ...]) -> dict[str, str]:
    """The dtypes of a mixed precision that are given."""
    return {name: dtype_name(getattr(policy, name)) for name in names if getattr(policy, name, None) is not None}


def _fsdp2_state(model: Any) -> Any:
    """Of the outermost unit."""
    from torch.distributed.fsdp import FSDPModule

    return next(module for module in model.modules() if isinstance(module, FSDPModule))._get_fsdp_state()


def _fsdp2(model: Any) -> dict[str, Any]:
    groups = _fsdp2_groups(model)
    options: dict[str, Any] = {}
    _, group = groups[-1]  # of a block: the root, which comes first, keeps its parameters after forward
    shape = [int(size) for size in group.mesh_info.mesh.shape]
    if len(shape) == 2:
        options["mesh"] = shape
    precision = _policy(_fsdp2_state(model)._mp_policy, ("param_dtype", "reduce_dtype", "output_dtype"))
    if precision:
        options["mp"] = precision
    after = group.post_forward_mesh_info
    if after is None:
        options["reshard_after_forward"] = False
    elif after is not group.mesh_info:
        options["reshard_after_forward"] = int(after.shard_mesh_size)
    return options


def _fsdp1(model: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"strategy": model.sharding_strategy.name}
    options["use_orig_params"] = bool(model._use_orig_params)
    options["forward_prefetch"] = bool(model.forward_prefetch)
    options["limit_all_gathers"] = bool(model.limit_all_gathers)
    options["backward_prefetch"] = model.backward_prefetch.name if model.backward_prefetch is not None else None
    precision = _policy(model.mixed_precision, ("param_dtype", "reduce_dtype", "buffer_dtype"))
    if precision:
        options["mp"] = precision
    if "HYBRID" in options["strategy"]:
        options["hybrid"] = [int(model._inter_node_pg.size()), int(model.process_group.size())]
    return options


def _ddp(model: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    cap = model.bucket_bytes_cap / MIB
    if cap != DEFAULT_BUCKET_MIB:
        options["bucket_cap_mb"] = cap
    for name in ("find_unused_parameters", "static_graph", "gradient_as_bucket_view"):
        if getattr(model, name, False):
            options[name] = True
    if not model.broadcast_buffers:
        options["broadcast_buffers"] = False
    return options


def _runtime(model: Any) -> tuple[str, dict[str, Any], Any, list[str]]:
    """Whose rules: name, arguments, the model inside, and the units besides the root."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.nn.parallel import DistributedDataParallel

    model = getattr(model, "_orig_mod", model)
    if isinstance(model, DistributedDataParallel):
        return "ddp", _ddp(model), getattr(model.module, "_orig_mod", model.module), []
    if isinstance(model, FullyShardedDataParallel):
        units = [clean(name) for name, module in model.named_modules() if isinstance(module, FullyShardedDataParallel)]
        return "fsdp1", _fsdp1(model), model.module, [unit for unit in units if unit]
    groups = _fsdp2_groups(model)
    if groups:
        return "fsdp2", _fsdp2(model), model, [name for name, _ in groups if name]
    raise LookupError("the model is in none of DDP, FSDP1 and FSDP2; wrap it in one of them before the training")


def _model_inside(model: Any) -> tuple[Any, str]:
    """The model of transformers that holds all parameters, as in a LightningModule, and what stands before its names."""
    prefix, count = "", sum(1 for _ in model.parameters())
    while not hasattr(getattr(model, "config", None), "to_diff_dict"):
        whole = [(name, child) for name, child in model.named_children() if sum(1 for _ in child.parameters()) == count]
        if len(whole) != 1:
            raise LookupError(f"{type(model).__name__} is no model of transformers, of whose operators a prediction follows")
        prefix, model = f"{prefix}{whole[0][0]}.", whole[0][1]
    return model, clean(prefix)


def _units_inside(units: list[str], prefix: str) -> list[str]:
    """Names within the model inside."""
    named = [f"{unit}." for unit in units]
    return [unit.removeprefix(prefix).rstrip(".") for unit in named if unit != prefix]


def _optimizer(optimizer: Any) -> dict[str, Any]:
    inner = optimizer
    while hasattr(inner, "optimizer"):  # accelerate's wrapper
        inner = inner.optimizer
    name = type(inner).__name__
    if name not in ("AdamW", "Adam", "SGD"):
        raise LookupError(f"its optimizer is {name}; predicted are AdamW, Adam and SGD")
    simple = (int, float, bool, tuple, type(None))
    return {"name": name, **{key: value for key, value in inner.defaults.items() if isinstance(value, simple)}}


def _has_checkpoints(model: Any, notes: list[str]) -> bool:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper

    if any(isinstance(module, CheckpointWrapper) for module in model.modules()):
        return True
    name = "is_activation_checkpointing" if hasattr(type(model), "is_activation_checkpointing") else "is_gradient_checkpointing"
    if getattr(model, name, False):
        notes.append("the model's own gradient checkpointing is predicted as PyTorch's wrapper around each block")
        return True
    return False


def settings_of(name: str, seen: Seen, optimizer: Any, world: int, steps: int, skip: int, notes: list[str]) -> dict[str, Any]:
    """The settings of what was seen. LookupError: why there are none."""
    import torch

    if seen.model is None:
        raise LookupError("no module ran forward in training mode before the optimizer's step")
    strategy, arguments, outer, units = _runtime(seen.model)
    model, prefix = _model_inside(outer)
    config: Any = model.config
    if seen.shape is None:
        raise LookupError("no input of whole numbers with the shape (sequences, tokens) was seen")
    if seen.autocast and not arguments.get("mp"):
        notes.append(f"the script computes under autocast ({seen.autocast}), which this prediction leaves out")
    batch, length = seen.shape
    case: dict[str, Any] = {
        "name": name, "world": world, strategy: arguments, "batch": batch, "seq": length, "micro_batches": max(seen.micro_batches, 1),
        "activation_checkpoint": _has_checkpoints(model, notes), "profiler": {"wait": skip - 1, "warmup": 1, "active": steps}}
    if seen.is_clipped:
        case["clip"] = 1.0  # how large the norm may be makes no difference to what runs
    if seen.micro_batches > 1 and not all(seen.syncs[:-1]):
        case["no_sync"] = True
    device = next(model.parameters()).device.type
    return {
        "name": name, "case": case, "strategy": strategy, "world": world, "model_class": _class_name(model),
        "config": {key: value for key, value in config.to_diff_dict().items() if key != "transformers_version"},
        "attention": getattr(config, "_attn_implementation", None) or "sdpa", "batch": batch, "seq": length,
        "micro_batches": case["micro_batches"], "precision": arguments.get("mp", "float32"), "optimizer": _optimizer(optimizer),
        "torch": torch.__version__.split("+")[0], "transformers": _transformers_version(),
        "backend": torch.distributed.get_backend() if torch.distributed.is_initialized() else None, "device": device,
        "device_name": torch.cuda.get_device_name() if device == "cuda" else None, "threads_per_rank": torch.get_num_threads(),
        "wrap": None if strategy == "ddp" else _units_inside(units, prefix)}


def _class_name(model: Any) -> str:
    """FSDP2 gives a module a class of its own, FSDP<name>."""
    bases = type(model).__mro__
    is_fsdp2 = len(bases) > 1 and bases[0].__name__.startswith("FSDP") and bases[0].__name__ != "FSDPModule"
    name = type(model).__name__
    return name.removeprefix("FSDP") if is_fsdp2 else name


def _transformers_version() -> Optional[str]:
    import sys

    return getattr(sys.modules.get("transformers"), "__version__", None)
