"""A 3-D U-Net for volumes: Conv3d, ConvTranspose3d, InstanceNorm, deep supervision, Dice loss, fp16, activations offloaded to the host."""
import torch
from torch import nn

def block(a, b):
    return nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01, inplace=True),
                         nn.Conv3d(b, b, 3, padding=1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01, inplace=True))

class Net(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        self.down = nn.ModuleList(block(a, b) for a, b in zip((1,) + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.merge = nn.ModuleList(block(2 * a, a) for a in widths[:-1])
        self.heads = nn.ModuleList(nn.Conv3d(a, 4, 1) for a in widths[:-1])

    def forward(self, x):
        kept = []
        for number, layer in enumerate(self.down):
            x = layer(x if number == 0 else nn.functional.max_pool3d(x, 2))
            kept.append(x)
        outs = []
        for number in reversed(range(len(self.up))):
            x = self.merge[number](torch.cat([self.up[number](x), kept[number]], dim=1))
            outs.append(self.heads[number](x))
        return outs[::-1]

model, scaler = Net().cuda(), torch.amp.GradScaler()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.99, nesterov=True)
for step in range(4):
    volume, labels = torch.randn(2, 1, 64, 64, 64, device="cuda"), torch.randint(0, 4, (2, 64, 64, 64), device="cuda")
    with torch.autocast("cuda", torch.float16), torch.autograd.graph.save_on_cpu(pin_memory=True):
        loss = 0
        for depth, out in enumerate(model(volume)):
            target = labels[:, ::2 ** depth, ::2 ** depth, ::2 ** depth]
            share, truth = out.float().softmax(1), nn.functional.one_hot(target, 4).movedim(-1, 1).float()
            dice = 2 * (share * truth).sum((2, 3, 4)) / (share.sum((2, 3, 4)) + truth.sum((2, 3, 4)) + 1e-5)
            loss = loss + (nn.functional.cross_entropy(out, target) + 1 - dice.mean()) / 2 ** depth
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 12)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(step, loss.item())
