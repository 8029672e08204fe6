"""GCN on a large made-up graph by hand: sparse CSR product, degree normalization with scatter_add, neighbour sampling with index_select, segment reduce."""
import torch
from torch import nn

nodes, edges, width = 50000, 600000, 256
source, target = torch.randint(0, nodes, (2, edges), device="cuda")
degree = torch.zeros(nodes, device="cuda").scatter_add_(0, target, torch.ones(edges, device="cuda")).clamp(min=1)
weight = (degree[source] * degree[target]).rsqrt()
adjacency = torch.sparse_coo_tensor(torch.stack([target, source]), weight, (nodes, nodes)).coalesce()
x, y = torch.randn(nodes, 128, device="cuda"), torch.randint(0, 40, (nodes,), device="cuda")
first, second = nn.Linear(128, width).cuda(), nn.Linear(width, 40).cuda()
edge_gate = nn.Linear(2 * 40, 1).cuda()
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters(), *edge_gate.parameters()], lr=0.01)
for step in range(4):
    hidden = torch.sparse.mm(adjacency, first(x)).relu()
    hidden = nn.functional.dropout(hidden, 0.5)
    out = torch.zeros(nodes, 40, device="cuda").index_add_(0, target, second(hidden)[source] * weight[:, None])
    picked = torch.randint(0, edges, (100000,), device="cuda")
    gate = edge_gate(torch.cat([out[source[picked]], out[target[picked]]], dim=1)).sigmoid()
    pooled = torch.zeros(nodes, 40, device="cuda").scatter_reduce_(0, target[picked, None].expand(-1, 40), out[source[picked]] * gate, "amax", include_self=False)
    loss = nn.functional.cross_entropy(out + pooled, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
