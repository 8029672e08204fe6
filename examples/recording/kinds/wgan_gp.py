"""WGAN with gradient penalty: two optimizers, double backward, five critic steps for one of the generator."""
import torch
from torch import nn

def critic_net():
    widths = [3, 64, 128, 256, 512]
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Conv2d(a, b, 4, 2, 1), nn.GroupNorm(1, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 16, 1))

def generator_net():
    widths = [512, 256, 128, 64]
    layers = [nn.ConvTranspose2d(128, 512, 4), nn.BatchNorm2d(512), nn.ReLU()]
    for a, b in zip(widths, widths[1:]):
        layers += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())

device = torch.device("cuda")
critic, generator = critic_net().to(device), generator_net().to(device)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
for step in range(10):
    real = torch.randn(64, 3, 64, 64, device=device)
    fake = generator(torch.randn(64, 128, 1, 1, device=device)).detach()
    share = torch.rand(64, 1, 1, 1, device=device)
    mixed = (share * real + (1 - share) * fake).requires_grad_()
    slope, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    penalty = ((slope.flatten(1).norm(dim=1) - 1) ** 2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    critic_optimizer.zero_grad()
    loss.backward()
    critic_optimizer.step()
    if step % 5 == 4:
        generator_optimizer.zero_grad()
        (-critic(generator(torch.randn(64, 128, 1, 1, device=device))).mean()).backward()
        generator_optimizer.step()
        print(step, loss.item())
