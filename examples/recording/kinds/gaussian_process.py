"""A Gaussian process: kernel matrix of 2,000 points, Cholesky, triangular solves, log determinant; eigenvalues at the end."""
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(2000, 8, device="cuda"), torch.randn(2000, 1, device="cuda")
scale, noise, size = (nn.Parameter(torch.zeros((), device="cuda")) for _ in range(3))
optimizer = torch.optim.Adam([scale, noise, size], lr=0.1)
for step in range(4):
    distances = torch.cdist(x, x).square()
    kernel = size.exp() * torch.exp(-distances * scale.exp()) + (noise.exp() + 1e-3) * torch.eye(len(x), device="cuda")
    factor = torch.linalg.cholesky(kernel)
    solved = torch.cholesky_solve(y, factor)
    loss = 0.5 * (y * solved).sum() + factor.diagonal().log().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
print(torch.linalg.eigvalsh(kernel.detach())[-1].item(), torch.linalg.svdvals(kernel.detach()[:256])[0].item())
