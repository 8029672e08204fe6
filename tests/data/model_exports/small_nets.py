"""A network that registers one module twice, and a parameter of another module as its own first."""
import torch


class Head(torch.nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.register_parameter("alias", shared)
        self.own = torch.nn.Parameter(torch.zeros(3), requires_grad=False)
        self.lin = torch.nn.Linear(3, 5, bias=False)
        self.register_buffer("table", torch.zeros(2, dtype=torch.bool))
        self.register_buffer("t2", torch.zeros(2), persistent=False)

    def forward(self, x):
        return self.lin(x + self.own) + self.alias[:5, 0]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = torch.nn.Embedding(7, 3)
        self.a = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        self.b = self.a
        self.head = Head(self.emb.weight)

    def forward(self, x):
        return self.head(self.b(self.a(self.emb(x)))).sum()
