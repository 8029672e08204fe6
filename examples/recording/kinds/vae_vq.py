"""VQ-VAE: custom straight-through autograd.Function, a codebook with moving averages, dead codes restarted by what the data say, selective checkpointing."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, codes):
        flat = x.permute(0, 2, 3, 1).flatten(0, 2)
        nearest = (flat.square().sum(1, keepdim=True) - 2 * flat @ codes.T + codes.square().sum(1)).argmin(1)
        ctx.mark_non_differentiable(nearest)
        return codes[nearest].view(x.shape[0], x.shape[2], x.shape[3], -1).permute(0, 3, 1, 2).contiguous(), nearest

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient, None

class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.ReLU(), nn.Conv2d(width, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, width, 1))

    def forward(self, x):
        return x + self.layers(x)

width, count = 128, 512
encoder = nn.Sequential(nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, width, 4, 2, 1), Residual(width), Residual(width)).cuda()
decoder = nn.Sequential(Residual(width), Residual(width), nn.ConvTranspose2d(width, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1)).cuda()
codes, sizes, sums = torch.randn(count, width, device="cuda"), torch.ones(count, device="cuda"), torch.randn(count, width, device="cuda")
optimizer = torch.optim.RMSprop([*encoder.parameters(), *decoder.parameters()], lr=3e-4)
for step in range(4):
    images = torch.randn(64, 3, 64, 64, device="cuda")
    hidden = checkpoint(encoder, images, use_reentrant=False)
    quantized, nearest = StraightThrough.apply(hidden, codes)
    loss = nn.functional.mse_loss(decoder(quantized), images) + 0.25 * nn.functional.mse_loss(hidden, quantized.detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        flat = hidden.permute(0, 2, 3, 1).flatten(0, 2)
        hot = nn.functional.one_hot(nearest, count).to(flat.dtype)
        sizes.mul_(0.99).add_(hot.sum(0), alpha=0.01)
        sums.mul_(0.99).add_(hot.T @ flat, alpha=0.01)
        codes.copy_(sums / sizes[:, None].clamp(min=1e-5))
        dead = (sizes < 0.05).nonzero().flatten()
        if len(dead):
            codes[dead] = flat[torch.randperm(len(flat), device="cuda")[:len(dead)]]
    print(step, loss.item(), len(nearest.unique()), len(dead))
