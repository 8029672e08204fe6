"""DeepSpeed with its mixture-of-experts layer: expert parallel size 4, top-2 gates, ZeRO-2, bf16."""
import deepspeed
import torch
from deepspeed.moe.layer import MoE
from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer
from torch import nn

deepspeed.init_distributed("nccl")
width = 1024

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 16, batch_first=True)
        expert = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.second, self.moe = nn.LayerNorm(width), MoE(width, expert, num_experts=8, ep_size=4, k=2, capacity_factor=1.25)

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        out, balance, _ = self.moe(self.second(x))
        return x + out, balance

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(16000, width), nn.Linear(width, 16000)
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, tokens):
        x, balance = self.embedding(tokens), 0
        for block in self.blocks:
            x, one = block(x)
            balance = balance + one
        loss = nn.functional.cross_entropy(self.head(x[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())
        return loss + 0.01 * balance

model = Net()
groups = split_params_into_different_moe_groups_for_optimizer({"params": list(model.parameters()), "name": "parameters"})
config = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "bf16": {"enabled": True}, "gradient_clipping": 1.0,
          "zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}}
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=groups, config=config)
for step in range(4):
    loss = engine(torch.randint(0, 16000, (4, 512), device=engine.device))
    engine.backward(loss)
    engine.step()
    print(step, loss.item())
