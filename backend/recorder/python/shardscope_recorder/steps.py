"""Modules, phases and the purpose of memory, from hooks that torch has for all modules and optimizers."""
import atexit
import glob
import time
import weakref

from . import log

_names = {}  # id of a module: its full name
_running = []  # modules whose forward runs, outermost first
_stepping = []  # optimizers whose step runs, outermost first: one can hold others (torchtitan's OptimizersContainer)
_known = set()  # (purpose, address) that were told
_roots = weakref.WeakSet()  # modules whose _tell_held was called


def _name_modules(root):
    for name, module in root.named_modules():
        _names[id(module)] = name


def _tell_held(root):
    """What a model holds and no optimizer names: frozen parameters, what bitsandbytes keeps beside a weight, and buffers."""
    for parameter in root.parameters():
        if not parameter.requires_grad:
            _tell("parameters", parameter)
        state = getattr(parameter, "quant_state", None)
        while state is not None:
            for value in getattr(state, "__dict__", {}).values():
                if hasattr(value, "untyped_storage"):
                    _tell("parameters", value)
            state = getattr(state, "state2", None)
    for buffer in root.buffers():
        _tell("parameters", buffer)


def _enter(module, arguments):
    import torch
    if torch.compiler.is_compiling():
        return
    if not _running:
        _name_modules(module)
        if module not in _roots:
            _roots.add(module)
            _tell_held(module)
        _stepping.clear()  # of steps that raised
    _running.append(module)
    log.line("enter", log.text(_names.get(id(module), "")), log.text(type(module).__name__))


def _leave(module, arguments, output):
    import torch
    if torch.compiler.is_compiling() or not _running:
        return
    _running.pop()
    log.line("leave")


def _parts(tensor):
    """The tensors that it is made of: of a DTensor this rank's part, of one in float8 its data and its scale, of a sparse
    one its indices and values."""
    import torch
    layout = getattr(tensor, "layout", None)  # what a tensor is made of can be something else than tensors
    if layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if not hasattr(tensor, "__tensor_flatten__"):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    return [part for name in names for part in _parts(getattr(tensor, name))]


def _storages(tensor):
    """Address and bytes of what a tensor lies in, on the device."""
    for part in _parts(tensor):
        if getattr(part, "is_cuda", False):
            storage = part.untyped_storage()
            if storage.nbytes():
                yield storage.data_ptr(), storage.nbytes()


def _tell(purpose, tensor):
    for place in _storages(tensor) if tensor is not None else ():
        if (purpose, place) not in _known:
            _known.add((purpose, place))
            log.line("purpose", purpose, *place)


def _end_step_of(optimizer):
    """Whether its step was the outermost one. What runs within it has ended, too, perhaps by an exception."""
    place = next((i for i, one in enumerate(_stepping) if one is optimizer), None)
    if place is not None:
        del _stepping[place:]
    return not _stepping


def _before_step(optimizer, arguments, options):
    if _end_step_of(optimizer):  # an earlier step of it that raised has no end
        log.line("phase", "optimizer")
    _stepping.append(optimizer)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            _tell("parameters", parameter)
            _tell("gradients", parameter.grad)


def _after_step(optimizer, arguments, options):
    for state in optimizer.state.values():
        for value in state.values():
            if hasattr(value, "untyped_storage"):
                _tell("optimizer_states", value)
    _known.difference_update([one for one in _known if one[0] == "gradients"])
    if _end_step_of(optimizer):
        log.line("phase", "step_end")


def _threads_are_idle():
    """Of autograd's own: asleep, by /proc."""
    for status in glob.glob("/proc/self/task/*/stat"):
        try:
            with open(status) as file:
                name, _, rest = file.read().partition(" (")[2].rpartition(") ")
        except OSError:
            continue
        if name.startswith("pt_autograd") and not rest.startswith("S"):
            return False
    return True


def _wait_for_autograd():
    """A thread of autograd that still lets go of a tensor when Python ends would end the process (SIGABRT): it asks for
    Python's lock, which is not given any more. While this sleeps it gets it."""
    quiet = 0
    for _ in range(500):
        time.sleep(0.01)
        quiet = quiet + 1 if _threads_are_idle() else 0
        if quiet == 3:
            return


def _tell_allocator(torch):
    """The settings of torch's own allocator, from the environment or from a call."""
    if torch.cuda.memory.get_allocator_backend() != "native":
        return  # cudaMallocAsync has no snapshot
    settings = torch.cuda.memory._snapshot().get("allocator_settings", {})
    text = next((value for key, value in settings.items() if key.endswith("ALLOC_CONF")), "")
    if text:
        log.line("allocator", " ".join(text.split()))


def _tell_statistics(torch):
    if not torch.cuda.is_initialized():
        return
    _tell_allocator(torch)
    for device in range(torch.cuda.device_count()):
        figures = torch.cuda.memory_stats(device)
        if figures.get("reserved_bytes.all.peak", 0) > 0:
            log.line("statistics", device, *[figures[f"{kind}_bytes.all.peak"]
                                             for kind in ("allocated", "active", "reserved")])


def watch(torch):
    from torch.nn.modules import module
    from torch.optim import optimizer

    module.register_module_forward_pre_hook(_enter)
    module.register_module_forward_hook(_leave, always_call=True)
    optimizer.register_optimizer_step_pre_hook(_before_step)
    optimizer.register_optimizer_step_post_hook(_after_step)
    atexit.register(_wait_for_autograd)
    atexit.register(_tell_statistics, torch)
