"""Recommendation: embedding bags with sparse gradients, dot interactions, SparseAdam beside Adagrad, AUC on the device."""
import torch
from torch import nn

rows, width, batch = [1000000, 200000, 50000, 10000, 1000], 64, 4096
tables = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum", sparse=True) for n in rows).cuda()
bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU()).cuda()
pairs = (len(rows) + 1) * len(rows) // 2
top = nn.Sequential(nn.Linear(width + pairs, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
optimizers = [torch.optim.SparseAdam(list(tables.parameters()), lr=1e-3), torch.optim.Adagrad([*bottom.parameters(), *top.parameters()], lr=1e-2)]
left, right = torch.tril_indices(len(rows) + 1, len(rows) + 1, offset=-1, device="cuda")
for step in range(4):
    dense, clicked = torch.randn(batch, 13, device="cuda"), torch.randint(0, 2, (batch,), device="cuda").float()
    parts = [bottom(dense)]
    for table, n in zip(tables, rows):
        lengths = torch.randint(1, 10, (batch,), device="cuda")
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)[:-1]])
        ids = torch.randint(0, n, (int(lengths.sum()),), device="cuda")
        parts.append(table(ids, offsets))
    stacked = torch.stack(parts, dim=1)
    dots = torch.bmm(stacked, stacked.transpose(1, 2))[:, left, right]
    score = top(torch.cat([parts[0], dots], dim=1)).flatten()
    loss = nn.functional.binary_cross_entropy_with_logits(score, clicked)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    order = score.argsort()
    ranks = torch.empty_like(order).scatter_(0, order, torch.arange(batch, device="cuda"))
    positive = clicked.sum()
    auc = (ranks[clicked.bool()].sum() - positive * (positive - 1) / 2) / (positive * (batch - positive))
    print(step, loss.item(), auc.item())
