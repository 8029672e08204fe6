"""A vision transformer (ViT-B/16), bf16 autocast, SGD with momentum."""
import torch
from transformers import ViTConfig, ViTForImageClassification

torch.manual_seed(0)
model = ViTForImageClassification(ViTConfig(num_labels=1000)).cuda().train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(4):
    images = torch.randn(32, 3, 224, 224, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(pixel_values=images, labels=torch.zeros(32, dtype=torch.long, device="cuda")).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
