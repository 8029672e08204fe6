"""torchtitan_2024.py TRAIN.PY OPTION...: torchtitan's own train.py as it was on 2024-12-26 (commit 9dec370, which its benchmarks of 2024-12 name), with
random tokens and 128,256 words in the place of the data set and the tokenizer, which it would download. PYTHONPATH holds the folder of TRAIN.PY.

shardscope record --world 8 --rank 0 --cluster h100_hbm2e_500w --time model -- torchrun --nproc-per-node 8 torchtitan_2024.py torchtitan/train.py
    --model.name llama3 --model.flavor 8B --training.steps 3 --training.warmup_steps 2 --training.seq_len 8192 --training.batch_size 2 ..."""
import runpy
import sys

import torch
import torchtitan.datasets
from torchtitan.datasets.hf_datasets import DPAwareDataLoader

VOCABULARY = 128256  # Llama 3's


class Words:
    n_words = VOCABULARY


class RandomTokens(torch.utils.data.IterableDataset):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def __iter__(self):
        while True:
            tokens = torch.randint(0, VOCABULARY, (self.length + 1,))
            yield tokens[:-1], tokens[1:]


torchtitan.datasets.build_tokenizer = lambda kind, path: Words()
torchtitan.datasets.build_hf_data_loader = (
    lambda name, path, tokenizer, batch_size, length, world_size, rank: DPAwareDataLoader(rank, RandomTokens(length), batch_size=batch_size))
torch.backends.cuda.enable_cudnn_sdp(False)  # of these two, torch took FlashAttention at that time
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
