"""Two steps of LLaMA-Factory, axolotl or ms-swift, and what PyTorch's caching allocator held at most in each.

    PEAKS=peaks.json shardscope record --time zero --cluster h100_sxm -- python record.py llama_factory case.yaml

On several ranks `torchrun --nproc-per-node 4` or `accelerate launch --config_file FILE` stands before record.py, and
`--world 4 --rank 0` after `record`. A case is the "file" of a row of steps.json; its model is a folder of random
weights with a tokenizer of words, its data one sample 48 times, longer than the length that the file asks for.
"""
import functools
import importlib
import importlib.util
import json
import os
import sys
import types

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", WANDB_DISABLED="true", DISABLE_VERSION_CHECK="1",
                  TORCH_COMPILE_DISABLE="1", AXOLOTL_DO_NOT_TRACK="1", USE_HF="1")
import torch  # noqa: E402
import transformers  # noqa: E402

peaks = []


def note(what):
    stats = torch.cuda.memory_stats()
    peaks.append({"what": what, "allocated": stats["allocated_bytes.all.peak"],
                  "reserved": stats["reserved_bytes.all.peak"]})
    torch.cuda.reset_peak_memory_stats()
    if os.environ.get("RANK", "0") == "0":
        json.dump(peaks, open(os.environ["PEAKS"], "w"))


class Peaks(transformers.TrainerCallback):
    def on_step_begin(self, *given, **named):
        note("between")

    def on_step_end(self, *given, **named):
        note("step")

    def on_evaluate(self, *given, **named):
        note("evaluate")

    def on_save(self, *given, **named):
        note("save")


made = transformers.Trainer.__init__


@functools.wraps(made)
def with_peaks(self, *given, **named):
    made(self, *given, **named)
    self.add_callback(Peaks())


transformers.Trainer.__init__ = with_peaks


def old_trl():
    """TRL 0.24 takes the pair that transformers 5's _is_package_available returns for true."""
    checks = transformers.utils.import_utils
    whole = checks._is_package_available
    checks._is_package_available = lambda *given, **named: (
        whole(*given, **named) if len(given) > 1 or named else whole(*given)[0])
    trl = types.ModuleType("trl")
    trl.__path__ = list(importlib.util.find_spec("trl").submodule_search_locations)
    sys.modules["trl"] = trl
    importlib.import_module("trl.import_utils")
    del sys.modules["trl"]
    checks._is_package_available = whole


def main():
    tool = sys.argv.pop(1)
    if tool == "axolotl":
        from axolotl.cli.train import do_cli
        return do_cli(config=sys.argv[1])
    old_trl()
    torchao = importlib.import_module("peft.tuners.lora.torchao")
    torchao.is_torchao_available = lambda: False  # PEFT 0.18 asks for names that torchao 0.18 lacks
    if tool == "llama_factory":
        from llamafactory.train.tuner import run_exp
        return run_exp()
    if tool == "ms_swift_rlhf":
        from swift.pipelines import rlhf_main
        return rlhf_main()
    from swift.pipelines import sft_main
    return sft_main()


if __name__ == "__main__":
    main()
