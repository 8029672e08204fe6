"""BERT-base classifies under DDP, float32."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForSequenceClassification

dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
torch.manual_seed(0)
model = DistributedDataParallel(BertForSequenceClassification(BertConfig()).cuda().train(), device_ids=[0])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(4):
    ids = torch.randint(0, 30522, (16, 128), device="cuda")
    loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=torch.zeros(16, dtype=torch.long, device="cuda")).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
