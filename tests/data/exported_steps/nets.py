"""Models that no rule of Shardscope's knows, each with what its forward is given."""
import torch
from torch import nn
from torch.nn import functional as F


class Gate(torch.autograd.Function):
    """x sigmoid(k x), with a backward of its own."""

    @staticmethod
    def forward(ctx, x, k):
        y = torch.sigmoid(x * k)
        ctx.save_for_backward(x, y)
        ctx.k = k
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * (y + ctx.k * x * y * (1 - y)), None


class GatedLayer(nn.Module):
    def __init__(self, width, shared):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)
        self.weight = nn.Parameter(torch.zeros(width))
        self.shared = shared

    def forward(self, x, scale=None, mask=None):
        h = self.down(F.silu(self.up(self.norm(x))))
        h = Gate.apply(h, 1.5).masked_fill(mask[..., None], 0.0)
        return x + self.shared(h) * self.weight.tanh() * scale, h.detach().abs().mean()


class Gated(nn.Module):
    """A module that runs in every layer, arguments by name, two outputs, a function with its own backward, a tensor that
    is no buffer, a buffer that changes, and a loss among what is returned."""

    def __init__(self, width=64, layers=2, vocabulary=500):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.shared = nn.Linear(width, width)
        self.layers = nn.ModuleList([GatedLayer(width, self.shared) for _ in range(layers)])
        self.table = torch.ones(width)
        self.head = nn.Linear(width, vocabulary)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, ids, mask):
        x, sizes = self.embedding(ids), []
        self.steps += 1
        scale = self.table.to(x.device, x.dtype)
        for layer in self.layers:
            x, size = layer(x, scale=scale, mask=mask)
            sizes.append(size)
        logits = self.head(x)
        return {"logits": logits, "sizes": torch.stack(sizes), "loss": F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())}


class Convolutional(nn.Module):
    """Convolutions, running statistics, a ReLU in place; the loss is the mean of what it returns."""

    def __init__(self):
        super().__init__()
        channels = [3, 16, 32]
        self.stages = nn.ModuleList([
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True), nn.MaxPool2d(2))
            for a, b in zip(channels, channels[1:])])
        self.head = nn.Linear(channels[-1], 100)

    def forward(self, images):
        for stage in self.stages:
            images = stage(images)
        return self.head(images.mean((2, 3)))


class Encoder(nn.Module):
    """PyTorch's own layers of attention, with dropout."""

    def __init__(self, width=64, layers=2, vocabulary=500):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0.1)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return F.cross_entropy(self.head(self.encoder(self.embedding(ids))).transpose(1, 2), ids)


INPUTS = {
    "gated": ["ids=int64[B,T]", "mask=bool[B,T]"],
    "convolutional": ["images=float32[B,3,32,32]"],
    "encoder": ["ids=int64[B,T]"],
}
BATCH, SEQUENCE = 4, 64


def gated():
    return Gated()


def convolutional():
    return Convolutional()


def encoder():
    return Encoder()
