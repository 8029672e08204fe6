"""One training step of a PyTorch model, written down so that Shardscope can run it again under any strategy.

export_model.py calls this. The model runs forward and backward once, with tensors that have no memory. What is written
is what the host does, in its order: calls of modules, operators, nodes of autograd with what they keep, and the deaths
of tensors. Attention is one step of its own, because its kernel depends on the GPU.

A program (in `programs` of the schema shardscope.model_export/1):
  batch, sequence  the sizes that it was made with
  inputs      dtype and shape of what the model is called with, positional ones first
  parameters, autocast  the dtype of the parameters, and that of torch.autocast or null
  operators   names, each once
  layouts     [dtype, shape, strides, offset in elements], each once
  storages    [bytes, device]: cuda or cpu
  values      tensors: [kind, layout, storage], and of a parameter or a buffer its name, of an input its place. The kinds
              are parameter, buffer, input, constant (the model has it, though not registered) and made (in the step)
  forward     what happens, in order; a value is its place in `values`, -1 is None:
    ["call", module, values, positional]    a module's forward begins; the first arguments are positional
    ["return", values]                      it ends
    ["node", node]                          autograd makes this node
    ["save", node, value]                   it keeps this value for backward
    ["op", operator, inputs, outputs, flops]  flops: -1 is unknown
    ["history", value, node, output]        the value is this output of that node
    ["alias", value, of]                    a tensor of the same storage, without an operator
    ["attention", query, key, value, mask, output, dropout, causal, grouped]
    ["linear", input, weight, bias, output] torch.nn.functional.linear: what follows up to
    ["linear_end"]                          is how it is done, unless a library has replaced it, as DeepSpeed does
    ["die", value]                          only autograd may still have it
  outputs     what the model returned
  loss        the value at which backward begins
  nodes       each with name, outputs ([dtype, shape, device] each), edges (for each the value whose gradient it makes), and:
    gradients   values: what comes in
    steps       "op", "alias" and "die" as above, and ["load", value, number]: what it saved as this number
    results     values: what goes out, one an edge
    deaths      values of the forward that die with this node
"""
import contextlib
import copy
import weakref

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

ATTENTION, LINEAR = torch.nn.functional.scaled_dot_product_attention, torch.nn.functional.linear
NO_VALUE = -1


class Unsupported(Exception):
    """Why a model's step cannot be written down, in one line."""


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def device_name(device):
    return "cpu" if device.type == "cpu" else "cuda"


def tensors_in(values):
    return [t for t in tree_leaves(values) if isinstance(t, torch.Tensor)]


def flops_of(func, args, kwargs, out):
    formula = flop_registry.get(func._overloadpacket)
    try:
        return int(formula(*args, **kwargs, out_val=out)) if formula else -1
    except Exception:  # a formula that was not made for these arguments
        return -1


def placed(tensor):
    """Where a tensor lies: two tensors of the same place are the same to a kernel."""
    return tensor.untyped_storage()._cdata, tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()


class Values:
    """Every tensor that was seen, each once; and every storage."""

    def __init__(self):
        self.rows, self.storages, self.layouts = [], [], {}
        self.by_id, self.storage_of, self.kept = {}, {}, []
        self.unseen = {}  # views by place: autograd gives the user another tensor than the operator returned

    def storage(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.storage_of:
            self.storage_of[key] = len(self.storages)
            self.kept.append(storage)  # an address that is free again would be taken for this one
            self.storages.append([storage.nbytes(), device_name(tensor.device)])
        return self.storage_of[key]

    def layout(self, tensor):
        key = (dtype_name(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
        return self.layouts.setdefault(key, len(self.layouts))

    def add(self, tensor, kind, *more):
        self.rows.append([kind, self.layout(tensor), self.storage(tensor), *more])
        return len(self.rows) - 1


class Graph:
    """Nodes of autograd by their sequence numbers."""

    def __init__(self):
        self.first = self.next = torch.autograd._get_sequence_nr()

    def new(self):
        newest = torch.autograd._get_sequence_nr()
        made = range(self.next, newest)
        self.next = newest
        return made


def is_view_of(out, inputs):
    return any(out.untyped_storage()._cdata == t.untyped_storage()._cdata for t in inputs)


class Tracer(TorchDispatchMode):
    """Writes events while a step runs. `steps` is where they go: the forward's, or the running node's."""

    def __init__(self, model):
        super().__init__()
        self.values, self.graph = Values(), Graph()
        self.model, self.names = model, {id(m): n for n, m in model.named_modules()}
        self.forward, self.steps = [], None
        self.operators = {}
        self.history, self.value_at = {}, {}  # value -> (node, output); (node, output) -> value
        self.saved, self.saved_by = [], {}  # number -> (node, alias); node -> its numbers
        self.paused = 0
        self.running = None  # the node whose backward runs
        self.finalizers = []
        self.detaching = False

    # ------------------------------------------------------------------------------------------------------- values

    @contextlib.contextmanager
    def pause(self):
        self.paused += 1
        try:
            with torch._C.DisableTorchFunction():
                yield
        finally:
            self.paused -= 1

    def emit(self, *event):
        self.steps.append(list(event))

    def watch(self, tensor, value):
        key = id(tensor)
        self.values.by_id[key] = value
        self.finalizers.append(weakref.finalize(tensor, self.died, key, value))

    def died(self, key, value):
        if self.values.by_id.get(key) == value:
            del self.values.by_id[key]
        if self.steps is not None:
            self.steps.append(["die", value])

    def value(self, tensor):
        """The number of a tensor that the program may have met before."""
        found = self.values.by_id.get(id(tensor))
        if found is None:
            found = self.values.unseen.pop(placed(tensor), None)
            if found is None:
                found = self.met_first(tensor)
            else:
                self.emit("adopt", found)
            self.watch(tensor, found)
        self.note_history(found, tensor)
        return found

    def met_first(self, tensor):
        """A tensor that no operator made: autograd's own alias of one, or one that the model has brought along."""
        key = tensor.untyped_storage()._cdata
        if key in self.values.storage_of:
            there = [v for v in self.values.by_id.values() if self.values.rows[v][2] == self.values.storage_of[key]]
            if not there:
                raise Unsupported("a tensor that is a view of one that nobody has any more")
            value = self.values.add(tensor, "made")
            self.emit("alias", value, max(there))
            return value
        return self.values.add(tensor, "constant")

    def note_history(self, value, tensor):
        if self.running is not None:
            return
        node = tensor.grad_fn
        now = (node._sequence_nr(), tensor.output_nr) if node is not None else None
        if now is None or self.history.get(value) == now:
            return
        if now[0] < self.graph.first:
            raise Unsupported("a tensor with a history from before the step")
        self.history[value] = now
        self.value_at[now] = value
        self.emit("history", value, *now)

    def made(self, tensor):
        """The number of what an operator has just returned."""
        value = self.values.add(tensor, "made")
        self.watch(tensor, value)
        return value

    # ---------------------------------------------------------------------------------------------------- operators

    def new_nodes(self):
        if self.running is None:
            for node in self.graph.new():
                self.emit("node", node)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.paused or self.steps is None or func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            return self.dispatch(func, args, kwargs)

    def dispatch(self, func, args, kwargs):
        self.new_nodes()
        given = tensors_in((args, kwargs))
        inputs = [self.value(t) for t in given]
        out = func(*args, **kwargs)
        results = tensors_in(out)
        outputs = [self.output_of(t, given, inputs) for t in results]
        if func is torch.ops.aten.detach.default and not self.detaching:
            self.emit("alias", outputs[0], inputs[0])  # autograd's own, no operator where nobody watches
        else:
            self.emit("op", self.operator(str(func)), inputs, outputs, flops_of(func, args, kwargs, out))
        for tensor, value in zip(results, outputs):
            if value not in inputs and is_view_of(tensor, given):
                self.values.unseen[placed(tensor)] = value
        return out

    def operator(self, name):
        return self.operators.setdefault(name, len(self.operators))

    def output_of(self, tensor, given, inputs):
        for other, value in zip(given, inputs):
            if other is tensor:
                return value
        return self.made(tensor)

    # --------------------------------------------------------------------------------------------- what autograd keeps

    def pack(self, tensor):
        if self.paused or self.steps is None:
            return tensor
        with self.pause():
            if self.running is not None:
                raise Unsupported("backward saves tensors, as activation checkpointing inside the model does; "
                                  "turn it off here and give --checkpointing to Shardscope")
            self.new_nodes()
            node = self.graph.next - 1
            number = len(self.saved)
            self.saved.append((node, tensor.detach()))
            self.saved_by.setdefault(node, []).append(number)
            self.emit("save", node, self.value(tensor))
            return number

    def unpack(self, number):
        if isinstance(number, torch.Tensor):
            return number
        with self.pause():
            node, alias = self.saved[number]
            mine = alias.detach()
            value = self.values.add(mine, "made")
            self.watch(mine, value)
            if self.running is not None:
                self.emit("load", value, self.saved_by[node].index(number))
            return mine

    # ------------------------------------------------------------------------------------------------------- modules

    def enter(self, module, args, kwargs):
        if id(module) not in self.names or self.steps is None:
            return
        if self.running is not None:
            raise Unsupported("a module runs in backward, as with activation checkpointing inside the model; turn it off here "
                              "and give --checkpointing to Shardscope")
        with torch._C.DisableTorchFunction():
            self.new_nodes()
            positional = self.arguments(args)
            self.emit("call", self.names[id(module)], positional + self.arguments(kwargs), len(positional))

    def arguments(self, values):
        return [NO_VALUE if t is None else self.value(t) for t in tree_leaves(values) if t is None or isinstance(t, torch.Tensor)]

    def leave(self, module, out):
        if id(module) not in self.names or self.steps is None:
            return
        with torch._C.DisableTorchFunction():
            self.new_nodes()
            self.emit("return", self.arguments(out))

    @contextlib.contextmanager
    def hooked(self):
        hooks = torch.nn.modules.module
        handles = [
            hooks.register_module_forward_hook(lambda module, args, out: self.leave(module, out)),
        ]
        # With keyword arguments, which the global hook is not given.
        handles += [m.register_forward_pre_hook(lambda module, args, kwargs: self.enter(module, args, kwargs), with_kwargs=True)
                    for m in self.model.modules()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    # ------------------------------------------------------------------------------------------- linear and attention

    def linear(self, input, weight, bias=None):
        with torch._C.DisableTorchFunction():
            self.new_nodes()
            event = ["linear", *self.arguments([input, weight, bias]), NO_VALUE]
            self.steps.append(event)
            out = LINEAR(input, weight, bias)
            self.new_nodes()
            event[4] = self.value(out)
            self.emit("linear_end")
        return out

    def attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if query.dim() == 3:
            batch = [t.unsqueeze(0) for t in (query, key, value)]
            mask = attn_mask if attn_mask is None or attn_mask.dim() < 3 else attn_mask.unsqueeze(0)
            return self.attention(*batch, mask, dropout_p, is_causal, scale, enable_gqa).squeeze(0)
        if query.dim() != 4:
            raise Unsupported(f"attention of {query.dim()} dimensions")
        with torch._C.DisableTorchFunction():
            return self.attend(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)

    def attend(self, query, key, value, attn_mask, dropout_p, is_causal, enable_gqa):
        inputs = [self.value(t) for t in (query, key, value)]
        mask = NO_VALUE if attn_mask is None else self.value(attn_mask)
        self.new_nodes()
        with self.pause():
            out = Attention.apply(self, query, key, value, attn_mask)
        made = self.graph.new()  # its node is the kernel's own
        result = self.values.add(out, "made")
        self.watch(out, result)
        if out.grad_fn is not None:
            at = (out.grad_fn._sequence_nr(), out.output_nr)
            assert at[0] in made
            self.history[result] = at
            self.value_at[at] = result
        self.emit("attention", *inputs, mask, result, float(dropout_p), bool(is_causal), bool(enable_gqa))
        return out


def laid_out(like, is_query_kept, last=None):
    """An empty tensor as a kernel returns it: flash attention keeps the order of dimensions in memory, others go by tokens."""
    shape, strides, dtype, device = like
    if len(shape) == 4 and not is_query_kept:
        return torch.empty((shape[0], shape[2], shape[1], last or shape[3]), dtype=dtype, device=device).transpose(1, 2)
    kept = torch.empty_strided(shape, strides, dtype=dtype, device=device)
    return torch.empty_like(kept) if last in (None, shape[-1]) else torch.empty((*shape[:-1], last), dtype=dtype, device=device)


class Attention(torch.autograd.Function):
    """In the place of the kernel: results of its shapes, laid out as its own are."""

    @staticmethod
    def forward(ctx, tracer, query, key, value, mask):
        dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else query.dtype
        ctx.like = [None if t is None else (t.shape, t.stride(), t.dtype, t.device) for t in (query, key, value, mask)]
        ctx.tracer = tracer
        ctx.is_flash = mask is None and dtype in (torch.float16, torch.bfloat16)
        shape, strides, _, device = ctx.like[0]
        return laid_out((shape, strides, dtype, device), ctx.is_flash, value.shape[-1])

    @staticmethod
    def backward(ctx, gradient):
        with ctx.tracer.pause():
            return (None, *[laid_out(like, ctx.is_flash or place == 3) if like and ctx.needs_input_grad[place + 1] else None
                            for place, like in enumerate(ctx.like)])


class Functions(TorchFunctionMode):
    """Sees what Python calls with the tensors that Python has."""

    def __init__(self, tracer):
        super().__init__()
        self.tracer = tracer

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tracer = self.tracer
        if tracer.paused or tracer.steps is None:
            return func(*args, **kwargs)
        if func is ATTENTION:
            return tracer.attention(*args, **kwargs)
        if func is LINEAR:
            return tracer.linear(*args, **kwargs)
        before, tracer.detaching = tracer.detaching, func in DETACHES
        try:
            out = func(*args, **kwargs)
        finally:
            tracer.detaching = before
        with torch._C.DisableTorchFunction():
            tracer.new_nodes()
            for tensor in tensors_in(out):
                tracer.value(tensor)
        return out


@contextlib.contextmanager
def seen_in_functions(tracer):
    """What functions of torch.nn.functional call of that module, which a mode does not see."""
    functions = torch.nn.functional
    functions.scaled_dot_product_attention, functions.linear = tracer.attention, tracer.linear
    try:
        yield
    finally:
        functions.scaled_dot_product_attention, functions.linear = ATTENTION, LINEAR


DETACHES = (torch.Tensor.detach, torch.Tensor.detach_, torch.detach)


# -------------------------------------------------------------------------------------------------------- the backward


def nodes_from(root):
    """Every node that backward goes through, once."""
    seen, found, todo = set(), [], [root]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found.append(node)
        todo += [after for after, _ in node.next_functions]
    return found


def is_leaf_node(node):
    return hasattr(node, "variable")  # AccumulateGrad


def edge_value(tracer, node, output):
    if node is None:
        return NO_VALUE
    if is_leaf_node(node):
        return tracer.value(node.variable)
    value = tracer.value_at.get((node._sequence_nr(), output))
    if value is None:
        raise Unsupported(f"the gradient of {node.name()} goes to a tensor that no operator was given")
    return value


def node_row(tracer, node):
    inputs = node._input_metadata
    return {"name": node.name(),
            "outputs": [[dtype_name(i.dtype), list(i.shape), device_name(i.device)] for i in inputs],
            "edges": [edge_value(tracer, after, number) for after, number in node.next_functions],
            "gradients": [], "steps": [], "results": [], "deaths": []}


def fresh_value(tracer, tensor):
    """A gradient as a node gets it: a value of its own for each node."""
    if tensor is None:
        return NO_VALUE
    value = tracer.values.add(tensor, "made")
    tracer.watch(tensor, value)
    return value


class Gradients:
    """What has come to each node so far. PyTorch's own engine cannot run here: it asks for the device."""

    def __init__(self):
        self.of = {}

    def add(self, node, place, gradient):
        if gradient is None:
            return
        slots = self.of.setdefault(node, {})
        meant = node._input_metadata[place]
        if gradient.shape != meant.shape:
            gradient = gradient.sum_to_size(meant.shape)
        gradient = gradient.to(meant.dtype)
        slots[place] = slots[place] + gradient if place in slots else gradient

    def take(self, node):
        slots = self.of.pop(node, {})
        return [slots.get(place) for place in range(len(node._input_metadata))]


def materialized(node, gradients):
    """A node of Python gets zeros for what did not come, unless it says otherwise."""
    if not getattr(node, "materialize_grads", True):
        return gradients
    return [torch.zeros(i.shape, dtype=i.dtype, device=i.device) if g is None else g for g, i in zip(gradients, node._input_metadata)]


def run_node(node, gradients):
    is_of_python = isinstance(node, torch.autograd.function.BackwardCFunction)
    results = node.apply(*materialized(node, gradients)) if is_of_python else node(*gradients)
    results = list(results) if isinstance(results, tuple) else [results]
    return of_edges(node, results) if is_of_python else results


def of_edges(node, results):
    """One result for each edge. A function's backward returns one for each argument, and only tensors have edges."""
    wanted = iter([result for result, needed in zip(results, node.needs_input_grad) if needed])
    return [None if after is None else next(wanted, None) for after, _ in node.next_functions]


def written_down(tracer, node, row, gradients):
    """The results of a node; its row gets what it did."""
    row["gradients"] = [fresh_value(tracer, t) for t in gradients]
    tracer.running, tracer.steps = node, row["steps"]
    results = run_node(node, gradients)
    results = results[:len(row["edges"])]
    row["results"] = [NO_VALUE if t is None else tracer.value(t) for t in results]
    tracer.steps = row["deaths"]
    return results


def run_backward(tracer, loss):
    """Rows of the nodes by their sequence numbers, in the order in which they ran."""
    nodes = [n for n in nodes_from(loss.grad_fn) if not is_leaf_node(n)]
    nodes.sort(key=lambda n: n._sequence_nr(), reverse=True)
    is_attention = {n: isinstance(n, torch.autograd.function.BackwardCFunction) and n._forward_cls is Attention for n in nodes}
    rows = {n._sequence_nr(): node_row(tracer, n) for n in nodes if not is_attention[n]}
    coming = Gradients()
    with torch.no_grad():
        with tracer.pause():
            coming.add(nodes[0], 0, torch.ones_like(loss))
        for node in nodes:
            with tracer.pause():
                gradients = coming.take(node)
            if is_attention[node]:
                tracer.running, tracer.steps = node, tracer.after_forward
                results = run_node(node, gradients)
            else:
                results = written_down(tracer, node, rows[node._sequence_nr()], gradients)
            gradients = None
            with tracer.pause():
                for (after, place), result in zip(node.next_functions, results):
                    if after is not None and not is_leaf_node(after):
                        coming.add(after, place, result)
            results = result = None
    tracer.running = tracer.steps = None
    return rows


# ---------------------------------------------------------------------------------------------------------- the program


def loss_of(outputs):
    """What backward begins at: the model's own loss, a scalar that it returned, or the mean of its first tensor."""
    named = outputs.get("loss") if isinstance(outputs, dict) else getattr(outputs, "loss", None)
    if isinstance(named, torch.Tensor):
        return named
    floating = [t for t in tensors_in(outputs) if t.is_floating_point() and t.requires_grad]
    if not floating:
        raise Unsupported("the model returns no tensor that requires a gradient")
    return floating[0] if floating[0].numel() == 1 else floating[0].float().mean()


def with_last_deaths(lists):
    """The lists of events, in the order in which they happened, with one death a value: a view has two tensors."""
    seen, kept = set(), []
    for events in reversed(lists):
        left = []
        for event in reversed(events):
            if event[0] == "die" and event[1] in seen:
                continue
            if event[0] in ("die", "adopt"):
                seen.add(event[1])
            if event[0] != "adopt":
                left.append(event)
        kept.append(left[::-1])
    return kept[::-1]


def renumbered(events, numbers):
    """Nodes by their places among those that backward reaches; nothing of the others."""
    place = {"node": 1, "save": 1, "history": 2}
    kept = []
    for event in events:
        at = place.get(event[0])
        if at is not None:
            if event[at] not in numbers:
                continue
            event[at] = numbers[event[at]]
        kept.append(event)
    return kept


def with_early_histories(events):
    """Each history right after the event that made the value: it is noticed when the value is used, which can be late."""
    after, made_at = {}, {}
    kept = []
    for event in events:
        if event[0] == "history" and event[1] in made_at:
            after.setdefault(made_at[event[1]], []).append(event)
            continue
        outputs = {"op": event[3] if event[0] == "op" else [], "alias": event[1:2], "attention": event[5:6]}.get(event[0], [])
        made_at.update((value, len(kept)) for value in outputs)
        kept.append(event)
    return [each for place, event in enumerate(kept) for each in (event, *after.get(place, []))]


def program_of(tracer, rows, returned, loss, forward_values):
    """The parts of a program that follow from the events."""
    order = list(rows.values())
    lists = [tracer.forward, tracer.after_forward]
    for row in order:
        lists += [row["steps"], row["deaths"]]
    lists = with_last_deaths(lists)
    for row, steps, deaths in zip(order, lists[2::2], lists[3::2]):
        row["steps"] = steps
        row["deaths"] = [event[1] for event in deaths if event[0] == "die" and event[1] < forward_values]
    numbers = {sequence: place for place, sequence in enumerate(sorted(rows))}
    return {"operators": list(tracer.operators), "layouts": [list(key) for key in tracer.values.layouts],
            "storages": tracer.values.storages, "values": tracer.values.rows,
            "forward": with_early_histories(renumbered(lists[0], numbers)), "outputs": returned, "loss": loss,
            "nodes": [rows[sequence] for sequence in sorted(rows)]}


@contextlib.contextmanager
def autocast(dtype):
    """torch.autocast("cuda", dtype), which turns itself off where there is no GPU."""
    if dtype is None:
        yield
        return
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])


def traced_step(model, inputs, loss_function=None, autocast_dtype=None):
    """The program of one step. `inputs`: (name or None, tensor)."""
    tracer = Tracer(model)
    for name, parameter in model.named_parameters():
        tracer.watch(parameter, tracer.values.add(parameter, "parameter", name))
    for name, buffer in model.named_buffers():
        tracer.watch(buffer, tracer.values.add(buffer, "buffer", name))
    for place, (_, tensor) in enumerate(inputs):
        tracer.watch(tensor, tracer.values.add(tensor, "input", place))
    positional = [tensor for name, tensor in inputs if name is None]
    keyword = {name: tensor for name, tensor in inputs if name is not None}
    tracer.steps, tracer.after_forward = tracer.forward, []
    with torch.autograd.graph.saved_tensors_hooks(tracer.pack, tracer.unpack), tracer.hooked(), tracer:
        with Functions(tracer), seen_in_functions(tracer), autocast(autocast_dtype):
            outputs = model(*positional, **keyword)
            returned = tracer.arguments(outputs)
            loss = loss_function(outputs) if loss_function else loss_of(outputs)
            outputs = None
            with torch._C.DisableTorchFunction():
                tracer.new_nodes()
                loss_value = tracer.value(loss)
        forward_values = len(tracer.values.rows)
        rows = run_backward(tracer, loss)
    for finalizer in tracer.finalizers:
        finalizer.detach()
    return program_of(tracer, rows, returned, loss_value, forward_values)


# ------------------------------------------------------------------------------------------------- a model without memory

KNOWN_DTYPES = {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "uint64"}


def fake_like(tensor, dtype):
    """A tensor of a CUDA device that need not be there; floating-point ones in `dtype`."""
    wanted = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=wanted, device="cuda")


def fake_twin(model, dtype):
    """A copy on a CUDA device that need not be there, with floating-point parameters in `dtype`, shared as they were."""
    twins = {}
    for parameter in model.parameters():
        twins[id(parameter)] = torch.nn.Parameter(fake_like(parameter, dtype), parameter.requires_grad)
    for tensor in model.buffers():
        twins[id(tensor)] = fake_like(tensor, None)
    for module in model.modules():
        for attribute in vars(module).values():
            if isinstance(attribute, torch.Tensor):
                twins.setdefault(id(attribute), fake_like(attribute, None))
    return copy.deepcopy(model, twins)


def program(model, inputs, loss_function, parameters, autocast_dtype):
    """The program of a model with its parameters in the dtype `parameters`. `inputs`: (name or None, dtype, shape)."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"):
        twin = fake_twin(model, parameters).train()
        low = parameters if parameters is not None and autocast_dtype is None else torch.float32
        tensors = [(name, torch.zeros(shape, dtype=low if dtype == torch.float32 else dtype)) for name, dtype, shape in inputs]
        step = traced_step(twin, tensors, loss_function, autocast_dtype)
    unknown = {row[0] for row in step["layouts"]} - KNOWN_DTYPES
    if unknown:
        raise Unsupported(f"tensors of {', '.join(sorted(unknown))}, which Shardscope does not know")
    rows = [{"dtype": dtype_name(dtype), "shape": shape} for _, dtype, shape in inputs]
    return {"inputs": rows, "parameters": dtype_name(parameters), "autocast": dtype_name(autocast_dtype) if autocast_dtype else None, **step}


# --precision of Shardscope -> what runs under it: the dtype of parameters while they are used, and autocast's.
PRECISIONS = {
    "fp32": [(torch.float32, None)],
    "bf16": [(torch.bfloat16, None)],
    "bf16_mixed": [(torch.float32, torch.bfloat16), (torch.bfloat16, None), (torch.bfloat16, torch.bfloat16)],
    "fp16_mixed": [(torch.float32, torch.float16), (torch.float16, None), (torch.float16, torch.float16)],
}


def programs(model, inputs, loss_function=None, precisions=("fp32", "bf16_mixed")):
    """A program for each way to compute that the precisions ask for."""
    ways = dict.fromkeys(way for name in precisions for way in PRECISIONS[name])
    return [program(model, inputs, loss_function, *way) for way in ways]
