"""torchvision: Faster R-CNN with a ResNet-50 and a feature pyramid, images of two sizes, amp."""
import torch
from torchvision.models.detection import fasterrcnn_resnet50_fpn

model = fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=21, min_size=480, max_size=800).cuda()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.005, momentum=0.9, weight_decay=0.0005)
scaler = torch.amp.GradScaler()
model.train()
for step in range(3):
    images, targets = [], []
    for height, width in ((480, 640), (512, 512)):
        images.append(torch.rand(3, height, width, device="cuda"))
        corner = torch.rand(5, 2) * 200
        boxes = torch.cat([corner, corner + 50 + torch.rand(5, 2) * 100], dim=1)
        targets.append({"boxes": boxes.cuda(), "labels": torch.randint(1, 21, (5,)).cuda()})
    with torch.autocast("cuda", torch.float16):
        losses = model(images, targets)
        loss = sum(losses.values())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(step, {name: round(value.item(), 3) for name, value in losses.items()})
