"""A Qwen2 of 6 layers under FSDP1, bf16 mixed precision."""
import functools

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from transformers import Qwen2Config, Qwen2ForCausalLM
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
torch.manual_seed(0)
config = Qwen2Config(hidden_size=896, intermediate_size=4864, num_hidden_layers=6, num_attention_heads=14,
                     num_key_value_heads=2, vocab_size=32000, tie_word_embeddings=True, use_cache=False)
model = FullyShardedDataParallel(
    Qwen2ForCausalLM(config).train(), device_id=0, use_orig_params=True,
    auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Qwen2DecoderLayer}),
    mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (4, 512), device="cuda")
    model(input_ids=ids, labels=ids).loss.backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
