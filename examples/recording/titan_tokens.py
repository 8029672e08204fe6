"""Random tokens and 128,256 words in the place of torchtitan's data set and tokenizer, which it would download. torchtitan's own training script is not
changed: it imports this file (torchtitan 0.1.0, --experimental.custom_import titan_tokens). With EAGER_LOSS=1 in the environment the loss is not
compiled, as it was before 2025."""
import os

import torch
from torchtitan.components.dataloader import ParallelAwareDataloader
from torchtitan.components.loss import cross_entropy_loss
from torchtitan.components.tokenizer import Tokenizer
from torchtitan.protocols.train_spec import get_train_spec

VOCABULARY = 128256  # Llama 3's


class Words(Tokenizer):
    def __init__(self):
        super().__init__()
        self._n_words = VOCABULARY

    def encode(self, *args, **kwargs):
        raise NotImplementedError

    def decode(self, *args, **kwargs):
        raise NotImplementedError


class RandomTokens(torch.utils.data.IterableDataset):
    def __init__(self, length):
        super().__init__()
        self.length = length

    def __iter__(self):
        while True:
            tokens = torch.randint(0, VOCABULARY, (self.length + 1,))
            yield {"input": tokens[:-1]}, tokens[1:]


def build_tokens(dp_world_size, dp_rank, tokenizer, job_config):
    return ParallelAwareDataloader(dataset=RandomTokens(job_config.training.seq_len), dp_rank=dp_rank, dp_world_size=dp_world_size,
                                   batch_size=job_config.training.local_batch_size)


spec = get_train_spec("llama3")
spec.build_tokenizer_fn = lambda job_config: Words()
spec.build_dataloader_fn = build_tokens
if os.environ.get("EAGER_LOSS"):
    spec.build_loss_fn = lambda job_config: cross_entropy_loss
