"""Builds the library that sees torch's operators, once for each torch, and loads it."""
import ctypes
import functools
import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

from . import log

REFUSED = 86  # an exit code that `shardscope record` takes for told (cli/record.cpp)
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "observer", "observer.cpp")


def _command(torch, to):
    """torch's own headers; those of CUDA lie beside it in its wheels, or where CUDA_HOME says."""
    root = os.path.dirname(torch.__file__)
    site = os.path.dirname(root)
    includes = [os.path.join(root, "include"), os.path.join(root, "include/torch/csrc/api/include")]
    includes += sorted(glob.glob(os.path.join(site, "nvidia/cu*/include")))
    includes += sorted(glob.glob(os.path.join(site, "nvidia/cuda_runtime/include")))
    includes.append(os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include"))
    # Without NDEBUG RecordFunction has one member more than in torch's wheels.
    return ["g++", "-O1", "-DNDEBUG", "-std=c++20", "-fPIC", "-shared", SOURCE, "-o", to,
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
            *[f"-I{path}" for path in includes if os.path.isdir(path)],
            "-L" + os.path.join(root, "lib"), "-lc10", "-lc10_cuda", "-ltorch_cpu", "-ldl"]


def _library(torch):
    with open(SOURCE, "rb") as source:
        key = hashlib.sha256(source.read() + os.path.realpath(torch.__file__).encode() + torch.__version__.encode())
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "shardscope", "observers")
    return os.path.join(cache, f"torch-{torch.__version__}-{key.hexdigest()[:16]}.so")


def _build(torch, library):
    if shutil.which("g++") is None:
        raise RuntimeError("g++ is missing, and operators cannot be seen without it; install g++")
    os.makedirs(os.path.dirname(library), exist_ok=True)
    print(f"shardscope record: building the observer for torch {torch.__version__} (once, about 10 s)", file=sys.stderr)
    handle, part = tempfile.mkstemp(dir=os.path.dirname(library), suffix=".part")
    os.close(handle)
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH")}
    done = subprocess.run(_command(torch, part), env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        os.unlink(part)
        reason = next((one for one in done.stderr.splitlines() if "error" in one), done.stderr[-300:])
        raise RuntimeError(f"the observer cannot be built for torch {torch.__version__}: {reason}")
    os.replace(part, library)


def _tell_version(torch):
    log.line("torch", torch.__version__, torch.version.cuda)
    knows_both = hasattr(torch._C, "_accelerator_setAllocatorSettings")  # and the newer name comes first
    settings = (knows_both and os.environ.get("PYTORCH_ALLOC_CONF")) or os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
    if settings:  # a call of the script may change them
        log.line("allocator", " ".join(settings.split()))


def _allow_forks(torch):
    """The simulated device goes on in a child of fork. A real one does not, which is told."""
    begin = torch.cuda._lazy_init

    @functools.wraps(begin)
    def lazy_init():
        if torch.cuda._is_in_bad_fork():
            print("shardscope record: a child of fork uses CUDA after its parent did; a real device refuses that",
                  file=sys.stderr)
            torch.cuda._is_in_bad_fork = lambda: False
        begin()

    torch.cuda._lazy_init = lazy_init


def _refuse(why):
    print(f"shardscope record: {why}", file=sys.stderr)
    sys.exit(REFUSED)


def load(torch):
    if torch.version.cuda is None:
        kind = "for ROCm" if getattr(torch.version, "hip", None) else "without CUDA"
        _refuse(f"torch {torch.__version__} was built {kind}; install one of CUDA's wheels")
    library = _library(torch)
    if not os.path.exists(library):
        try:
            _build(torch, library)
        except RuntimeError as error:
            _refuse(str(error))
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    _allow_forks(torch)
    _tell_version(torch)
    os.register_at_fork(after_in_child=lambda: _tell_version(torch))  # whose log is another
