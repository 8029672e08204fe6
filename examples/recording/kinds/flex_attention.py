"""A small GPT on packed documents: flex_attention with a mask of documents and a sliding window, compiled; Muon for matrices, AdamW for the rest."""
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

flex = torch.compile(flex_attention)
width, heads, length = 768, 6, 4096

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x, mask):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(nn.functional.rms_norm(x, (width,))).view(batch, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(flex(q, k, v, block_mask=mask).transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.relu(self.up(nn.functional.rms_norm(x, (width,)))).square())

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50304, width), nn.Linear(width, 50304, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(6))

    def forward(self, tokens, targets):
        documents = (tokens == 50256).cumsum(1)[0]

        def mask(b, h, q, k):
            return (q >= k) & (q - k < 1024) & (documents[q] == documents[k])

        blocks = create_block_mask(mask, None, None, length, length, device="cuda")
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, blocks)
        return nn.functional.cross_entropy(self.head(x).float().flatten(0, 1), targets.flatten())

model = GPT().cuda().bfloat16()
matrices = [p for p in model.blocks.parameters() if p.ndim == 2]
others = [*model.embedding.parameters(), *model.head.parameters()]
optimizers = [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(others, lr=3e-4, fused=True)]
for step in range(4):
    tokens = torch.randint(0, 50257, (1, length + 1), device="cuda")
    loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:])
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    print(step, loss.item())
