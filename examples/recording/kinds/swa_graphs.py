"""CUDA graphs of the whole step, warmed up on a side stream; stochastic weight averaging with update_bn; sharpness-aware second pass."""
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, SWALR, update_bn

model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.BatchNorm2d(128), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).cuda()
average = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
schedule = SWALR(optimizer, swa_lr=0.05)
images, kinds = torch.randn(128, 3, 32, 32, device="cuda"), torch.randint(0, 10, (128,), device="cuda")

def passes():
    loss = nn.functional.cross_entropy(model(images), kinds)
    loss.backward()
    return loss

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        passes()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = passes()
for step in range(6):
    images.copy_(torch.randn(128, 3, 32, 32))
    kinds.copy_(torch.randint(0, 10, (128,)))
    graph.replay()
    with torch.no_grad():
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        moves = [p.grad * (0.05 / (norm + 1e-12)) for p in model.parameters()]
        torch._foreach_add_(list(model.parameters()), moves)
        graph.replay()
        torch._foreach_sub_(list(model.parameters()), moves)
    optimizer.step()
    average.update_parameters(model)
    schedule.step()
    print(step, loss.item())
update_bn([torch.randn(128, 3, 32, 32) for _ in range(4)], average, device="cuda")
