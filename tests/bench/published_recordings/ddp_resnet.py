"""What the trace hta_ddp_resnet_a100_nccl_args.json.gz of HolisticTraceAnalysis shows, as a script: ResNet-50 in float32 under DDP, 32 images of 224 x 224
that are made on the device, cross entropy with probabilities, SGD of one foreach kernel. The batch follows from the grid of its max_pool kernel.

shardscope record --world 2 --rank 0 --cluster a100_40gb --time model -- torchrun --nproc-per-node 2 ddp_resnet.py"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchvision.models import resnet50

dist.init_process_group("nccl")
device = dist.get_rank() % torch.cuda.device_count()
torch.cuda.set_device(device)
model = DistributedDataParallel(resnet50().to(device), device_ids=[device])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images = torch.randn(32, 3, 224, 224, device=device)
labels = torch.randn(32, 1000, device=device).softmax(dim=1)
for _ in range(4):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
dist.destroy_process_group()
