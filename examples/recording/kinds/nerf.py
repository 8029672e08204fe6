"""NeRF with a feature grid: trilinear grid_sample, volume rendering by cumprod, importance sampling by searchsorted."""
import torch
from torch import nn

torch.manual_seed(0)
grid = nn.Parameter(torch.randn(1, 16, 128, 128, 128, device="cuda") * 0.1)
net = nn.Sequential(nn.Linear(16 + 27, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4)).cuda()
optimizer = torch.optim.Adam([{"params": [grid], "lr": 1e-2}, {"params": net.parameters(), "lr": 1e-3}])

def encode(d):
    parts = [d] + [f(2 ** i * d) for i in range(4) for f in (torch.sin, torch.cos)]
    return torch.cat(parts, dim=-1)

def render(origin, direction, depth):
    points = origin[:, None] + direction[:, None] * depth[..., None]
    features = nn.functional.grid_sample(grid, points[None, None].clamp(-1, 1), align_corners=True)[0, :, 0].permute(1, 2, 0)
    out = net(torch.cat([features, encode(direction)[:, None].expand(-1, depth.shape[1], -1)], dim=-1))
    steps = torch.diff(depth, dim=1, append=depth[:, -1:] + 1e-2)
    alpha = 1 - torch.exp(-nn.functional.softplus(out[..., 3]) * steps)
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], dim=1), dim=1)[:, :-1]
    weights = alpha * through
    return (weights[..., None] * out[..., :3].sigmoid()).sum(1), weights

for step in range(4):
    origin = torch.randn(4096, 3, device="cuda") * 0.1
    direction = nn.functional.normalize(torch.randn(4096, 3, device="cuda"), dim=-1)
    colour = torch.rand(4096, 3, device="cuda")
    coarse = torch.linspace(0, 1, 64, device="cuda").expand(4096, -1) + torch.rand(4096, 64, device="cuda") / 64
    first, weights = render(origin, direction, coarse)
    cdf = torch.cumsum(weights.detach() + 1e-5, dim=1)
    cdf = cdf / cdf[:, -1:]
    where = torch.searchsorted(cdf, torch.rand(4096, 64, device="cuda")).clamp(max=63)
    fine = torch.cat([coarse, coarse.gather(1, where)], dim=1).sort(dim=1)[0]
    second, _ = render(origin, direction, fine)
    loss = nn.functional.mse_loss(first, colour) + nn.functional.mse_loss(second, colour)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
