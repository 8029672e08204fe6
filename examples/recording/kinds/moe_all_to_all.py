"""Experts on all ranks by hand: top-2 routing, tokens sorted by expert, all_to_all_single with counts that the data decide, in both directions."""
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_to_all_single
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
world, width, each = dist.get_world_size(), 1024, 2

class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(width, world * each, bias=False)
        self.up, self.down = (nn.Parameter(torch.randn(each, *shape) * 0.02) for shape in ((width, 4 * width), (4 * width, width)))

    def forward(self, x):
        scores, chosen = self.gate(x).softmax(-1).topk(2)
        order = chosen.flatten().argsort()
        counts = torch.bincount(chosen.flatten(), minlength=world * each)
        received = torch.empty_like(counts)
        dist.all_to_all_single(received, counts)
        sent, got = counts.view(world, each).sum(1).tolist(), received.view(world, each).sum(1).tolist()
        tokens = x[order // 2]
        here = all_to_all_single(tokens.new_empty(sum(got), width), tokens, got, sent)
        expert = torch.arange(each, device="cuda").repeat(world).repeat_interleave(received)
        out = torch.zeros_like(here)
        for number in range(each):
            rows = (expert == number).nonzero().flatten()
            out = out.index_add(0, rows, nn.functional.silu(here[rows] @ self.up[number]) @ self.down[number])
        back = all_to_all_single(torch.empty_like(tokens), out, sent, got)
        return torch.zeros_like(x).index_add(0, order // 2, back * scores.flatten()[order, None])

torch.manual_seed(dist.get_rank())
layers = nn.ModuleList(nn.ModuleList([nn.LayerNorm(width), Experts()]) for _ in range(4)).cuda()
shared = [p for name, p in layers.named_parameters() if "up" not in name and "down" not in name]
optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4)
for step in range(4):
    x = torch.randn(4096, width, device="cuda")
    for norm, experts in layers:
        x = x + experts(norm(x))
    loss = x.square().mean()
    loss.backward()
    for p in shared:
        dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
dist.destroy_process_group()
