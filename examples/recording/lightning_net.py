"""Lightning: a convolutional net with batch normalization, 16-mixed, two workers and pinned memory."""
import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        widths = [3, 64, 128, 256]
        blocks = [nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in zip(widths, widths[1:])]
        self.layers = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 100))

    def training_step(self, batch, number):
        images, kinds = batch
        return nn.functional.cross_entropy(self.layers(images), kinds)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    lightning.seed_everything(0)
    rows = TensorDataset(torch.randn(256, 3, 64, 64), torch.randint(0, 100, (256,)))
    data = DataLoader(rows, batch_size=64, num_workers=2, pin_memory=True)
    trainer = lightning.Trainer(max_epochs=1, precision="16-mixed", accelerator="gpu", devices=1, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Net(), data)
