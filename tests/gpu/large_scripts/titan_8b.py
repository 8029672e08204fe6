"""Eight layers of Llama-3-8B as torchtitan writes them, FSDP2 on one rank, bf16 with float32 masters, no checkpointing,
one sequence of 8,192 tokens. TITAN_COMPILE=1 compiles each block, TITAN_FLOAT8=1 computes its linear layers in 8 bits."""
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

DIM, HIDDEN, HEADS, KV_HEADS, VOCABULARY, LAYERS, SEQ, BATCH = 4096, 14336, 32, 8, 128256, 8, 8192, 1


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        head = DIM // HEADS
        self.wq = torch.nn.Linear(DIM, HEADS * head, bias=False)
        self.wk = torch.nn.Linear(DIM, KV_HEADS * head, bias=False)
        self.wv = torch.nn.Linear(DIM, KV_HEADS * head, bias=False)
        self.wo = torch.nn.Linear(HEADS * head, DIM, bias=False)

    def forward(self, x, freqs):
        b, s, _ = x.shape
        q, k, v = self.wq(x).view(b, s, HEADS, -1), self.wk(x).view(b, s, KV_HEADS, -1), self.wv(x).view(b, s, KV_HEADS, -1)

        def turn(t):
            numbers = torch.view_as_complex(t.float().reshape(*t.shape[:-1], -1, 2))
            return torch.view_as_real(numbers * freqs).flatten(3).type_as(t)

        def repeat(t):
            return t[:, :, :, None, :].expand(b, s, KV_HEADS, HEADS // KV_HEADS, t.shape[-1]).reshape(b, s, HEADS, t.shape[-1])

        q, k = turn(q), turn(k)
        k, v = repeat(k), repeat(v)
        out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.wo(out.transpose(1, 2).contiguous().view(b, s, -1))


class FeedForward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = torch.nn.Linear(DIM, HIDDEN, bias=False)
        self.w2 = torch.nn.Linear(HIDDEN, DIM, bias=False)
        self.w3 = torch.nn.Linear(DIM, HIDDEN, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.attention_norm, self.ffn_norm = torch.nn.RMSNorm(DIM, eps=1e-5), torch.nn.RMSNorm(DIM, eps=1e-5)

    def forward(self, x, freqs):
        h = x + self.attention(self.attention_norm(x), freqs)
        return h + self.feed_forward(self.ffn_norm(h))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = torch.nn.Embedding(VOCABULARY, DIM)
        self.layers = torch.nn.ModuleDict({str(i): Block() for i in range(LAYERS)})
        self.norm = torch.nn.RMSNorm(DIM, eps=1e-5)
        self.output = torch.nn.Linear(DIM, VOCABULARY, bias=False)
        angles = torch.outer(torch.arange(SEQ), 1.0 / 500000 ** (torch.arange(0, DIM // HEADS, 2) / (DIM // HEADS)))
        self.register_buffer("freqs", torch.polar(torch.ones_like(angles), angles)[None, :, None, :], persistent=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            h = layer(h, self.freqs)
        return self.output(self.norm(h))


dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
torch.manual_seed(0)
with torch.device("cuda"):
    model = Model()
if os.environ.get("TITAN_FLOAT8"):
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    convert_to_float8_training(model, config=Float8LinearConfig(enable_fsdp_float8_all_gather=True),
                               module_filter_fn=lambda module, name: isinstance(module, torch.nn.Linear) and name != "output")
if os.environ.get("TITAN_COMPILE"):
    for layer in model.layers.values():
        layer.compile(fullgraph=True)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model.layers.values():
    fully_shard(layer, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
for _ in range(5):
    tokens = torch.randint(0, VOCABULARY, (BATCH, SEQ), device="cuda")
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
dist.destroy_process_group()
