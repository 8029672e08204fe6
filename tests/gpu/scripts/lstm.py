"""A language model of two LSTM layers, float32."""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(10000, 512), nn.Linear(512, 10000)
        self.layers = nn.LSTM(512, 512, num_layers=2, batch_first=True)

    def forward(self, ids):
        return self.head(self.layers(self.embedding(ids))[0])


torch.manual_seed(0)
model = Model().cuda().train()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(4):
    ids = torch.randint(0, 10000, (32, 128), device="cuda")
    nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
