"""DDPM of diffusers on made-up images: UNet2DModel with attention, EMA of weights, cosine schedule, fp16 of accelerate."""
import torch
from accelerate import Accelerator
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel

accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=2)
model = UNet2DModel(sample_size=64, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(128, 128, 256, 256, 512),
                    down_block_types=("DownBlock2D", "DownBlock2D", "DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
                    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D", "UpBlock2D", "UpBlock2D"))
noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-6)
images = torch.utils.data.TensorDataset(torch.rand(64, 3, 64, 64) * 2 - 1)
data = torch.utils.data.DataLoader(images, batch_size=8, shuffle=True)
schedule = get_cosine_schedule_with_warmup(optimizer, 2, 100)
model, optimizer, data, schedule = accelerator.prepare(model, optimizer, data, schedule)
ema = EMAModel(model.parameters(), decay=0.999)
ema.to(accelerator.device)
for (clean,) in data:
    noise = torch.randn_like(clean)
    times = torch.randint(0, noise_scheduler.config.num_train_timesteps, (len(clean),), device=clean.device).long()
    noisy = noise_scheduler.add_noise(clean, noise, times)
    with accelerator.accumulate(model):
        loss = torch.nn.functional.mse_loss(model(noisy, times).sample, noise)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        ema.step(model.parameters())
        print(loss.item())
