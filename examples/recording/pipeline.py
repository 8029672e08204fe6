"""Eight blocks over two pipeline stages, 1F1B with 8 micro-batches."""
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
rank, stages, width = dist.get_rank(), dist.get_world_size(), 2048
torch.manual_seed(rank)
blocks = [nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
          for _ in range(8 // stages)]
model = nn.Sequential(*blocks).to("cuda", torch.bfloat16)
schedule = Schedule1F1B(PipelineStage(model, rank, stages, torch.device("cuda")), n_microbatches=8, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(4):
    x = torch.randn(64, 512, width, device="cuda", dtype=torch.bfloat16)
    if rank == 0:
        schedule.step(x)
    elif rank == stages - 1:
        schedule.step(target=torch.randn_like(x))
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
