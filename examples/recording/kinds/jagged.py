"""Sentences of different lengths as one jagged nested tensor: encoder layers with scaled_dot_product_attention, no padding."""
import torch
from torch import nn

width, heads = 512, 8

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        h = self.first(x)
        q, k, v = (f(h).unflatten(-1, [heads, -1]).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))
        return x + self.mlp(self.second(x))

torch.manual_seed(0)
embedding, layers, head = nn.Embedding(10000, width).cuda(), nn.ModuleList(Layer() for _ in range(4)).cuda(), nn.Linear(width, 4).cuda()
parameters = [*embedding.parameters(), *layers.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-4)
for step in range(4):
    sentences = [torch.randint(0, 10000, (int(n),)) for n in torch.randint(20, 200, (64,))]
    tokens = torch.nested.nested_tensor(sentences, layout=torch.jagged, device="cuda")
    kinds = torch.randint(0, 4, (64,), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        x = embedding(tokens)
        for layer in layers:
            x = layer(x)
        loss = nn.functional.cross_entropy(head(torch.nested.to_padded_tensor(x, 0.0).mean(dim=1)), kinds)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
