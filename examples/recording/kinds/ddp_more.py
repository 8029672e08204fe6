"""DDP with synchronized batch normalization, ZeroRedundancyOptimizer, PowerSGD, unused parameters, uneven inputs under Join, a prefetching stream."""
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, number):
        return torch.randn(3, 64, 64), number % 10

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.BatchNorm2d(128), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.head, self.other = nn.Linear(2048, 10), nn.Linear(2048, 10)

    def forward(self, x, which):
        return (self.head if which else self.other)(self.body(x))

if __name__ == "__main__":
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(Net()).cuda()
    model = DistributedDataParallel(model, device_ids=[local], find_unused_parameters=True)
    model.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    data = Data()
    sampler = torch.utils.data.DistributedSampler(data)
    loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler, num_workers=2, pin_memory=True, persistent_workers=True, prefetch_factor=2)
    side = torch.cuda.Stream()
    scaler = torch.amp.GradScaler()
    for epoch in range(1):
        sampler.set_epoch(epoch)
        for number, (images, kinds) in enumerate(loader):
            with torch.cuda.stream(side):
                images, kinds = images.cuda(non_blocking=True), kinds.cuda(non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            images.record_stream(torch.cuda.current_stream())
            with torch.autocast("cuda", torch.float16):
                loss = nn.functional.cross_entropy(model(images, number % 2), kinds)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            print(number, loss.item())
    dist.destroy_process_group()
