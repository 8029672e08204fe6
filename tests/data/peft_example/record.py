"""PEFT's examples/sft/train.py, and what PyTorch's caching allocator held at most in each step and phase.

    PEAKS=peaks.json shardscope record --time zero --cluster h100_sxm -- python record.py ARGUMENTS

train.py and utils.py of PEFT 5d602fd lie beside this file; ARGUMENTS are those of a row's "file", with a folder of
random weights and a tokenizer of words as the model, and texts of 127 words as the data. With several ranks
`accelerate launch --config_file FILE` stands in the place of `python`, and `--world N --rank 0` after `record`.
"""
import functools
import json
import os
import runpy
import sys

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", WANDB_DISABLED="true", TRL_EXPERIMENTAL_SILENCE="1")
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

    def on_train_end(self, *given, **named):
        note("end")


made = transformers.Trainer.__init__


@functools.wraps(made)
def with_peaks(self, *given, **named):
    made(self, *given, **named)
    self.add_callback(Peaks())


transformers.Trainer.__init__ = with_peaks
folder = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, folder)
sys.argv[0] = os.path.join(folder, "train.py")
runpy.run_path(sys.argv[0], run_name="__main__")
note("saved")
