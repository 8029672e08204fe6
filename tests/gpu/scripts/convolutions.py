"""A small residual net with batch normalization, float32."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
                                    nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1, bias=False),
                                    nn.BatchNorm2d(channels))

    def forward(self, x):
        return torch.relu(x + self.layers(x))


torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.MaxPool2d(2), *[Block(64) for _ in range(4)],
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1000)).cuda().train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(4):
    images = torch.randn(32, 3, 224, 224, device="cuda")
    nn.functional.cross_entropy(model(images), torch.zeros(32, dtype=torch.long, device="cuda")).backward()
    optimizer.step()
    optimizer.zero_grad()
