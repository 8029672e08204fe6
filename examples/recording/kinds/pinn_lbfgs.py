"""A physics-informed net for Burgers' equation: second derivatives by autograd, Adam first, then LBFGS with its line search."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 128), nn.Tanh(), *[layer for _ in range(4) for layer in (nn.Linear(128, 128), nn.Tanh())], nn.Linear(128, 1)).cuda()
inside = (torch.rand(20000, 2, device="cuda") * 2 - 1).requires_grad_()
start = torch.cat([torch.rand(500, 1, device="cuda") * 2 - 1, torch.zeros(500, 1, device="cuda")], dim=1)

def loss_of():
    u = net(inside)
    first, = torch.autograd.grad(u.sum(), inside, create_graph=True)
    second, = torch.autograd.grad(first[:, :1].sum(), inside, create_graph=True)
    residual = first[:, 1:] + u * first[:, :1] - 0.01 / torch.pi * second[:, :1]
    return residual.pow(2).mean() + (net(start) + torch.sin(torch.pi * start[:, :1])).pow(2).mean()

adam = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(5):
    adam.zero_grad()
    loss = loss_of()
    loss.backward()
    adam.step()
lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=10, history_size=10, line_search_fn="strong_wolfe")

def closure():
    lbfgs.zero_grad()
    loss = loss_of()
    loss.backward()
    return loss

for step in range(2):
    print(step, lbfgs.step(closure).item())
