"""A Fourier neural operator for a field of 128 x 128: rfft2, complex products, irfft2; OneCycle, complex weights under Adam."""
import torch
from torch import nn

class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.low, self.high = (nn.Parameter(torch.randn(width, width, modes, modes, dtype=torch.cfloat) / width ** 2) for _ in range(2))

    def forward(self, x):
        spectrum, m = torch.fft.rfft2(x), self.modes
        out = torch.zeros_like(spectrum)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=x.shape[-2:])

class Net(nn.Module):
    def __init__(self, width=64, modes=24):
        super().__init__()
        self.lift, self.out = nn.Conv2d(3, width, 1), nn.Sequential(nn.Conv2d(width, 128, 1), nn.GELU(), nn.Conv2d(128, 1, 1))
        self.spectral = nn.ModuleList(Spectral(width, modes) for _ in range(4))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(4))

    def forward(self, x):
        x = self.lift(x)
        for spectral, local in zip(self.spectral, self.local):
            x = nn.functional.gelu(spectral(x) + local(x))
        return self.out(x)

model = Net().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=100)
for step in range(4):
    field, answer = torch.randn(16, 3, 128, 128, device="cuda"), torch.randn(16, 1, 128, 128, device="cuda")
    out = model(field)
    loss = ((out - answer).flatten(1).norm(dim=1) / answer.flatten(1).norm(dim=1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(step, loss.item())
