#!/usr/bin/env python3
"""Writes what Shardscope needs to know of a PyTorch model as one JSON file.

The model is built by your own PyTorch, without memory for its weights where that is possible, and looked at: the tree
of modules with their classes, every parameter and buffer, what is shared, the order in which modules run, and, from
one traced forward, the aten operators and what autograd keeps for backward. Then

    shardscope model model.json

answers as it does for a Hugging Face config.json. Nothing is trained, downloaded or changed.

What is written (schema shardscope.model_export/1):
  made_by            versions of python, torch and transformers (null: not used)
  class, model_type  of the root; the config's model_type, or null
  base_model_prefix, no_split_modules
                     what transformers' models say; "" and [] for others
  modules            in the order of named_modules(remove_duplicate=False): name ("" is the root), class, bases (classes
                     above it up to Module), same_as (an earlier module that is the same object), parameters and
                     buffers of its own in the order of their registration: name, shape, dtype, and of a parameter
                     trainable and same_as (the full name of an earlier parameter that is the same object), of a buffer
                     persistent
  trace              null, or of one forward in training mode:
    batch, sequence, inputs, tensors_are (fake, meta or real)
    execution_order  names of modules as their forward began; one that ran twice stands there twice
    storages         bytes and kind: parameter, buffer, input or other
    tensors          dtype, shape, and the storage that they lie in
    operators        as dispatched below autograd and autocast: operator, module (the innermost that was running, or
                     null), and as places in tensors: inputs, outputs, saved (what its backward keeps)
  trace_error        null, or why there is no trace
  programs           null, or one training step for each precision: export_program.py beside this file says how
  program_error      null, or why there are none
"""
import argparse
import contextlib
import copy
import importlib
import importlib.util
import inspect
import itertools
import json
import os
import platform
import re
import sys
import tempfile
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SCHEMA = "shardscope.model_export/1"
EXAMPLES = """examples:
  export_model.py --model path/to/folder --batch 2 --seq 512 -o model.json
      a Hugging Face model, as its config.json says; traced with 2 sequences of 512 tokens
  export_model.py --model config.json --class LlamaForSequenceClassification
      another head than the config's architectures name
  export_model.py --factory mypackage.models:build --inputs 'float32[B,3,224,224]'
      any function without arguments (or class) that makes a torch.nn.Module; one positional input
  export_model.py --factory mypackage.models:build --inputs 'ids=int64[B,T]' --inputs 'mask=bool[B,T]' --batch 4
      inputs by name; B and T are --batch and --seq
  export_model.py --factory mypackage.models:build --no-trace
      only the tree of modules and the parameters
"""


class ExportError(Exception):
    """One line for the user."""


def note(text):
    print(f"export_model: {text}", file=sys.stderr)


def in_one_line(error):
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


# ---------------------------------------------------------------------------------------------- building the model


def factory_of(text):
    """The object that "package.module:function" names."""
    package, colon, name = text.partition(":")
    if not colon:
        raise ExportError(f"--factory {text}: expected package.module:function")
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(package), name)
    except (ImportError, AttributeError) as error:
        raise ExportError(f"--factory {text}: {error}") from error


def transformers_class(arguments, config):
    """The class that --class or the config's architectures name."""
    import transformers

    name = arguments.class_name or (config.architectures or [None])[0]
    auto_map = getattr(config, "auto_map", None) or {}
    for auto, target in auto_map.items():
        if arguments.trust_remote_code and str(target).endswith(f".{name}"):
            return getattr(transformers, auto)
    if name is None:
        return transformers.AutoModel
    if not hasattr(transformers, name):
        raise ExportError(f"transformers {transformers.__version__} has no class {name}; name one with --class")
    return getattr(transformers, name)


def transformers_builder(arguments):
    """A function that builds the model of --model, and its config."""
    try:
        from transformers import AutoConfig
    except ImportError as error:
        raise ExportError("--model needs transformers; --factory does without") from error
    if not os.path.exists(arguments.model):
        raise ExportError(f"--model {arguments.model}: no such file or folder (nothing is downloaded)")
    config = AutoConfig.from_pretrained(arguments.model, trust_remote_code=arguments.trust_remote_code, local_files_only=True)
    config.use_cache = False  # as in training
    cls = transformers_class(arguments, config)
    options = {"dtype": getattr(torch, arguments.dtype)} if arguments.dtype else {}
    if cls.__name__.startswith("Auto"):
        options["trust_remote_code"] = arguments.trust_remote_code
        return lambda: cls.from_config(config, **options), config
    return lambda: cls._from_config(config, **options), config


def factory_builder(arguments):
    make = factory_of(arguments.factory)

    def build():
        model = make()
        if not isinstance(model, torch.nn.Module):
            raise ExportError(f"--factory {arguments.factory} made a {type(model).__name__}, not a torch.nn.Module")
        return model.to(getattr(torch, arguments.dtype)) if arguments.dtype else model

    return build, None


def fake_mode():
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode()


def contexts(kind, device):
    """What the model is built and run in, so that its tensors are fake (no memory), meta (no memory, no device), real."""
    stack = contextlib.ExitStack()
    if kind == "fake":
        stack.enter_context(fake_mode())
    stack.enter_context(torch.device("meta" if kind == "meta" else device))
    return stack


def are_of_one_mode(model):
    """A deepcopy of a fake tensor makes a mode of its own, which does not go with the others."""
    return len({id(p.fake_mode) for p in model.parameters() if hasattr(p, "fake_mode")}) < 2


def build_model(build, arguments):
    """The model, and of which kind its tensors are."""
    kinds = ["real"] if arguments.real else ["fake", "meta"]
    for kind in kinds:
        try:
            with contexts(kind, arguments.device):
                model = build().train()
            if are_of_one_mode(model):
                return model, kind
            reason = "a copied module has tensors of another mode"
        except ExportError:
            raise
        except Exception as error:  # whatever the user's code raises
            reason = in_one_line(error)
            note(f"cannot be built with {kind} tensors: {reason}")
    raise ExportError(f"the model cannot be built: {reason}" + ("" if arguments.real else "; --real gives it memory"))


# ------------------------------------------------------------------------------------------------ the tree of modules


def joined(prefix, name):
    return f"{prefix}.{name}" if prefix else name


def bases_of(cls):
    module = torch.nn.Module
    return [c.__name__ for c in cls.__mro__[1:] if issubclass(c, module) and c is not module]


def parameter_rows(name, module, seen):
    rows = []
    for own, parameter in module._parameters.items():
        if parameter is None:
            continue
        if isinstance(parameter, torch.nn.parameter.UninitializedParameter):
            raise ExportError(f"parameter {joined(name, own)} is lazy and has no shape yet; let the factory run the model once")
        row = {"name": own, "shape": list(parameter.shape), "dtype": dtype_name(parameter.dtype),
               "trainable": parameter.requires_grad}
        if id(parameter) in seen:
            row["same_as"] = seen[id(parameter)]
        seen.setdefault(id(parameter), joined(name, own))
        rows.append(row)
    return rows


def buffer_rows(module):
    return [{"name": own, "shape": list(buffer.shape), "dtype": dtype_name(buffer.dtype),
             "persistent": own not in module._non_persistent_buffers_set}
            for own, buffer in module._buffers.items() if buffer is not None]


def module_rows(model):
    rows, seen_modules, seen_parameters = [], {}, {}
    for name, module in model.named_modules(remove_duplicate=False):
        row = {"name": name, "class": type(module).__name__, "bases": bases_of(type(module))}
        if id(module) in seen_modules:
            row["same_as"] = seen_modules[id(module)]
        seen_modules.setdefault(id(module), name)
        row["parameters"] = parameter_rows(name, module, seen_parameters)
        row["buffers"] = buffer_rows(module)
        rows.append(row)
    return rows


# ---------------------------------------------------------------------------------------------------------- the trace


def parse_input(text, sizes):
    """NAME=DTYPE[B,T,7] or DTYPE[...]: name (or None), dtype, shape."""
    match = re.fullmatch(r"(?:(\w+)=)?(\w+)\[([\w, ]*)\]", text.strip())
    dtype = getattr(torch, match[2], None) if match else None
    if not isinstance(dtype, torch.dtype):
        raise ExportError(f"--inputs {text}: expected NAME=DTYPE[SIZE,...] as in ids=int64[B,T]")
    shape = []
    for size in filter(None, (part.strip() for part in match[3].split(","))):
        if not (size in sizes or size.isdigit()):
            raise ExportError(f"--inputs {text}: size {size} is neither a number nor {' or '.join(sizes)}")
        shape.append(sizes[size] if size in sizes else int(size))
    return match[1], dtype, shape


# Endings of transformers' classes whose loss takes labels: one for each token, or one for each sequence.
LABELS_BY_TOKEN = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "ForTokenClassification")
LABELS_BY_SEQUENCE = ("ForSequenceClassification", "ForMultipleChoice", "ForNextSentencePrediction")
CHOICES = 2


def text_inputs(model, config, batch, sequence):
    """What a text model of transformers is trained with, as its class's name says."""
    name = type(model).__name__
    known = inspect.signature(model.forward).parameters
    if "input_ids" not in known:
        raise ExportError(f"{name} takes no input_ids; say with --inputs what it takes")
    tokens, one_each = (torch.int64, [batch, sequence]), (torch.int64, [batch])
    ids = (torch.int64, [batch, CHOICES, sequence]) if name.endswith("ForMultipleChoice") else tokens
    inputs = {"input_ids": ids}
    if name.endswith(LABELS_BY_TOKEN):
        inputs["labels"] = tokens
    elif name.endswith(LABELS_BY_SEQUENCE):
        inputs["labels"] = one_each
    elif name.endswith("ForQuestionAnswering"):
        inputs["start_positions"] = inputs["end_positions"] = one_each
    elif getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in known:
        inputs["decoder_input_ids"] = tokens
    return [(key, *value) for key, value in inputs.items()]


def given_inputs(arguments):
    return [parse_input(text, {"B": arguments.batch, "T": arguments.seq}) for text in arguments.inputs or []]


def wanted_inputs(model, config, arguments):
    if arguments.inputs:
        return sorted(given_inputs(arguments), key=lambda row: row[0] is not None)  # positional ones first
    if config is None:
        raise ExportError("no --inputs given")
    return text_inputs(model, config, arguments.batch, arguments.seq)


class Tables:
    """Tensors and storages in the order in which they appear, each once."""

    def __init__(self):
        self.storages, self.tensors = [], []
        self.by_storage, self.by_row, self.kept = {}, {}, []

    def storage(self, tensor, kind="other"):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.by_storage:
            self.by_storage[key] = len(self.storages)
            self.kept.append(storage)  # an address that is free again would be taken for this one
            self.storages.append({"bytes": storage.nbytes(), "kind": kind})
        return self.by_storage[key]

    def tensor(self, tensor):
        row = (dtype_name(tensor.dtype), tuple(tensor.shape), self.storage(tensor))
        if row not in self.by_row:
            self.by_row[row] = len(self.tensors)
            self.tensors.append({"dtype": row[0], "shape": list(row[1]), "storage": row[2]})
        return self.by_row[row]

    def all_in(self, values):
        return [self.tensor(t) for t in tree_leaves(values) if isinstance(t, torch.Tensor)]


class RunningModules:
    """Which module's forward is running, and in which order they began."""

    def __init__(self, model):
        self.names = {id(module): name for name, module in model.named_modules()}
        self.stack, self.order = [], []

    def __enter__(self):
        hooks = torch.nn.modules.module
        self.handles = [hooks.register_module_forward_pre_hook(lambda module, args: self.enter(module)),
                        hooks.register_module_forward_hook(lambda module, args, out: self.leave(module), always_call=True)]
        return self

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()

    def enter(self, module):
        if id(module) in self.names:  # not one that forward made on the way
            self.stack.append(self.names[id(module)])
            self.order.append(self.stack[-1])

    def leave(self, module):
        if id(module) in self.names:
            self.stack.pop()

    @property
    def innermost(self):
        return self.stack[-1] if self.stack else None


class OperatorLog(TorchDispatchMode):
    """Every operator below autograd, and by autograd's own numbers what its backward keeps.

    Autograd numbers its nodes. An operator's node is made just before the operator is dispatched, and keeps tensors
    while it is the newest: inputs before, results after the dispatch.
    """

    def __init__(self, modules, tables):
        super().__init__()
        self.modules, self.tables = modules, tables
        self.rows, self.saved = [], []  # saved: (node, tensor)
        self.row_of_node, self.next_node = {}, torch.autograd._get_sequence_nr()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        newest = torch.autograd._get_sequence_nr()
        for node in range(self.next_node, newest):
            self.row_of_node[node] = len(self.rows)
        self.next_node = newest
        inputs = self.tables.all_in((args, kwargs))
        out = func(*args, **kwargs)
        self.rows.append({"operator": str(func), "module": self.modules.innermost, "inputs": inputs,
                          "outputs": self.tables.all_in(out), "saved": []})
        return out

    def keep(self, tensor):
        self.saved.append((torch.autograd._get_sequence_nr() - 1, self.tables.tensor(tensor)))
        return tensor

    def operators(self):
        for node, tensor in self.saved:
            row = self.row_of_node.get(node, len(self.rows) - 1)
            self.rows[row]["saved"].append(tensor)
        return self.rows


def trace(model, kind, wanted, arguments):
    """One forward in training mode."""
    tables, modules = Tables(), RunningModules(model)
    for parameter in model.parameters():
        tables.storage(parameter, "parameter")
    for buffer in model.buffers():
        tables.storage(buffer, "buffer")
    device = "meta" if kind == "meta" else arguments.device
    tensors = [(name, torch.zeros(shape, dtype=dtype, device=device)) for name, dtype, shape in wanted]
    for _, tensor in tensors:
        tables.storage(tensor, "input")
    positional = [tensor for name, tensor in tensors if name is None]
    log = OperatorLog(modules, tables)
    with torch.autograd.graph.saved_tensors_hooks(log.keep, lambda tensor: tensor), modules, log:
        outputs = model(*positional, **{name: tensor for name, tensor in tensors if name is not None})
    del outputs
    return {
        "batch": arguments.batch, "sequence": arguments.seq, "tensors_are": kind,
        "inputs": [{"name": name, "dtype": dtype_name(dtype), "shape": shape} for name, dtype, shape in wanted],
        "execution_order": modules.order, "operators": log.operators(),
        "tensors": tables.tensors, "storages": tables.storages,
    }


def one_packed_sequence(position_ids):
    """As transformers' own function where each row holds one sequence: it looks at values, which a fake tensor lacks."""
    changes = torch.diff(position_ids, prepend=position_ids[:, :1] - 1, dim=-1)
    ((changes != 1).cumsum(-1)[:, -1] == 0).all()
    return None


@contextlib.contextmanager
def whole_sequences(kind):
    """Without it transformers 5 takes a fake batch for sequences packed into one, and makes a mask for them."""
    masks = sys.modules.get("transformers.masking_utils")
    original = getattr(masks, "find_packed_sequence_indices", None)
    if original is None or kind == "real":
        yield
        return
    masks.find_packed_sequence_indices = one_packed_sequence
    try:
        yield
    finally:
        masks.find_packed_sequence_indices = original


def traced(model, kind, config, arguments):
    """The trace, or None and why there is none."""
    if arguments.no_trace:
        return None, "--no-trace was given"
    mode = next((p.fake_mode for p in model.parameters() if kind == "fake" and hasattr(p, "fake_mode")), None)
    try:
        wanted = wanted_inputs(model, config, arguments)
        device = torch.device("meta" if kind == "meta" else arguments.device)
        with mode or contextlib.nullcontext(), device, whole_sequences(kind):
            return trace(model, kind, wanted, arguments), None
    except Exception as error:  # whatever the model's code raises
        return None, str(error) if isinstance(error, ExportError) else in_one_line(error)


# --------------------------------------------------------------------------------------------------------- the file


def compact(value, indent=0):
    """JSON with one row of a table per line."""
    pad = " " * (indent + 1)
    if isinstance(value, dict) and indent < 2:
        body = ",\n".join(f"{pad}{json.dumps(key)}: {compact(item, indent + 1)}" for key, item in value.items())
        return "{\n" + body + "\n" + " " * indent + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(pad + json.dumps(item) for item in value) + "\n" + " " * indent + "]"
    return json.dumps(value)


def write_atomically(path, text):
    """All of it or nothing: into a new file beside it, which then takes its name."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".export_model.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # as open() would, not mkstemp's 0600
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def versions(config):
    return {"python": platform.python_version(), "torch": torch.__version__,
            "transformers": sys.modules["transformers"].__version__ if config is not None else None}


def export(arguments):
    given_inputs(arguments)  # complaints before the model is built
    build, config = transformers_builder(arguments) if arguments.model else factory_builder(arguments)
    model, kind = build_model(build, arguments)
    return export_of(model, kind, config, arguments)


def export_of(model, kind, config, arguments):
    trace_rows, reason = traced(model, kind, config, arguments)
    if reason and not arguments.no_trace:
        note(f"no trace: {reason}")
    steps, why_none = step_programs(model, config, arguments) if trace_rows else (None, "there is no trace")
    if trace_rows and why_none:
        note(f"no training step, so that only `shardscope model` can read the export: {why_none}")
    return {
        "schema": SCHEMA,
        "made_by": versions(config),
        "class": type(model).__name__,
        "model_type": getattr(config, "model_type", None),
        "base_model_prefix": getattr(model, "base_model_prefix", ""),
        "no_split_modules": block_classes(model, getattr(arguments, "blocks", None)),
        "modules": module_rows(model),
        "trace_error": reason,
        "trace": trace_rows,
        "program_error": why_none,
        "programs": steps,
    }


def beside(name):
    """A script of this folder."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"{__name__}_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def block_classes(model, given):
    """What strategies wrap: the classes that --blocks names, those that transformers says, or those of lists of modules."""
    classes = {type(module).__name__ for module in model.modules()}
    for name in given or []:
        if name not in classes:
            raise ExportError(f"--blocks {name}: the model has no module of this class")
    said = given or getattr(model, "_no_split_modules", None)
    return sorted(said if said else classes_of_lists(model))


def classes_of_lists(model):
    """Classes of the outermost lists of modules, of which each has modules of its own."""
    found, inside = set(), []
    for name, module in model.named_modules():
        if any(name.startswith(f"{outer}.") for outer in inside):
            continue
        children = list(module.children())
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) and len(children) > 1:
            kinds = {type(child) for child in children if any(True for _ in child.children())}
            found.update(kind.__name__ for kind in kinds)
            inside += [name] if kinds and name else []
    return found


def step_programs(model, config, arguments):
    """Programs of a training step, or None and why there are none."""
    export_program = beside("export_program")
    try:
        precisions = arguments.precision or default_precisions(model)
        loss_function = factory_of(arguments.loss) if isinstance(arguments.loss, str) else arguments.loss
        steps = []
        for batch, seq in itertools.product(arguments.batches, arguments.seqs):
            sized = argparse.Namespace(**{**vars(arguments), "batch": batch, "seq": seq})
            with whole_sequences("fake"):
                made = export_program.programs(model, wanted_inputs(model, config, sized), loss_function, precisions)
            steps += [{"batch": batch, "sequence": seq, **program} for program in made]
        return steps, None
    except Exception as error:  # whatever the model's code raises
        return None, str(error) if isinstance(error, (ExportError, export_program.Unsupported)) else in_one_line(error)


def default_precisions(model):
    floating = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    return {torch.bfloat16: ["bf16"], torch.float16: ["fp16_mixed"]}.get(floating, ["fp32", "bf16_mixed"])


def on_meta(model):
    """A copy without memory: tensors of the meta device, shared as they were."""
    tensors = [*model.parameters(), *model.buffers()]
    twins = {id(tensor): tensor.detach().to("meta").requires_grad_(tensor.requires_grad) for tensor in tensors}
    twins.update({id(p): torch.nn.Parameter(twins[id(p)], p.requires_grad) for p in model.parameters()})
    return copy.deepcopy(model, twins)


def export_module(model, batch=1, seq=128, inputs=None, precision=None, loss=None):
    """The export of a module that is there already, as JSON text. `batch` is a number or a list, `inputs` and `precision` are
    lists as their options, `loss` is a function. The module stays as it is."""
    batches = [batch] if isinstance(batch, int) else batch
    arguments = argparse.Namespace(batch=batches[0], seq=seq, batches=batches, seqs=[seq], inputs=inputs, device="meta", no_trace=False,
                                   precision=precision, loss=loss)
    try:
        twin = on_meta(model).train()
    except Exception as error:  # whatever the user's code raises
        raise ExportError(f"{type(model).__name__} cannot be copied to the meta device: {in_one_line(error)}") from error
    config = model.config if hasattr(getattr(model, "config", None), "to_json_string") else None
    return compact(export_of(twin, "meta", config, arguments)) + "\n"


def parse_arguments(argv):
    parser = argparse.ArgumentParser(
        prog="export_model.py", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLES,
        description="Writes a PyTorch model's modules, parameters and operators as JSON for Shardscope.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", metavar="FOLDER_OR_CONFIG", help="a Hugging Face folder or config.json")
    what.add_argument("--factory", metavar="PACKAGE.MODULE:FUNCTION", help="what makes the model; the working folder is searched too")
    parser.add_argument("--class", dest="class_name", metavar="NAME", help="class of transformers, in place of the config's architectures")
    parser.add_argument("--trust-remote-code", action="store_true", help="run model code that lies in the folder of --model")
    parser.add_argument("--dtype", metavar="NAME", help="of the parameters, such as bfloat16 (default: the model's own)")
    parser.add_argument("--inputs", action="append", metavar="[NAME=]DTYPE[SIZES]", help="an input of forward; repeat for more (default with --model: tokens and labels)")
    parser.add_argument("--batch", type=int, action="append", metavar="B", help="sequences of a step; repeat for more, and `shardscope plan` chooses among them (1)")
    parser.add_argument("--seq", type=int, action="append", metavar="T", help="tokens of each; repeat for more (128)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="whose operators are traced: cpu (default) or cuda, where there is one")
    parser.add_argument("--real", action="store_true", help="give the model memory, where it cannot be built without")
    parser.add_argument("--blocks", action="append", metavar="CLASS",
                        help="the class of the blocks that strategies wrap; repeat for more (default: as transformers says, or the classes in the model's ModuleLists)")
    parser.add_argument("--precision", action="append", choices=["fp32", "bf16", "bf16_mixed", "fp16_mixed"],
                        help="the precision that the step can be predicted in; repeat for more (default: fp32 and bf16_mixed; bf16 for a bfloat16 model)")
    parser.add_argument("--loss", metavar="PACKAGE.MODULE:FUNCTION",
                        help="a function that computes the loss from what the model returns (default: its `loss`, a scalar that it returns, or the mean of its first tensor)")
    parser.add_argument("--no-trace", action="store_true", help="do not run forward")
    parser.add_argument("-o", "--output", default="model.json", metavar="PATH", help="the file to write (model.json)")
    arguments = parser.parse_args(argv)
    if arguments.dtype and not isinstance(getattr(torch, arguments.dtype, None), torch.dtype):
        parser.error(f"--dtype {arguments.dtype}: not a dtype of torch")
    arguments.batches, arguments.seqs = arguments.batch or [1], arguments.seq or [128]
    if min(arguments.batches + arguments.seqs) < 1:
        parser.error("--batch and --seq are at least 1")
    arguments.batch, arguments.seq = arguments.batches[0], arguments.seqs[0]
    return arguments


def main(argv=None):
    arguments = parse_arguments(argv)
    warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
    try:
        exported = export(arguments)
    except ExportError as error:
        note(error)
        return 2
    except (OSError, ValueError) as error:  # of transformers, about the config
        note(in_one_line(error))
        return 2
    try:
        write_atomically(arguments.output, compact(exported) + "\n")
    except OSError as error:
        note(f"cannot write {arguments.output}: {error.strerror}")
        return 3
    operators = len(exported["trace"]["operators"]) if exported["trace"] else 0
    note(f"wrote {arguments.output}: {len(exported['modules'])} modules" + (f", {operators} operators" if operators else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
