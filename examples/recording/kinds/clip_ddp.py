"""CLIP from scratch under DDP: features gathered with gradients, static graph, no_sync accumulation, bf16 compression hook, EMA by swa_utils."""
import os
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.nn.functional import all_gather
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import CLIPConfig, CLIPModel

dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
config = CLIPConfig(text_config={"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 8},
                    vision_config={"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 6, "num_attention_heads": 12, "patch_size": 16})
model = CLIPModel(config).cuda()
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
parallel = DistributedDataParallel(model, device_ids=[local], gradient_as_bucket_view=True, static_graph=False)
parallel.register_comm_hook(None, default_hooks.bf16_compress_hook)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.2, fused=True)

def loss_of():
    words = torch.randint(0, 49000, (32, 77), device="cuda")
    pixels = torch.randn(32, 3, 224, 224, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        out = parallel(input_ids=words, pixel_values=pixels)
    text, image = (torch.cat(all_gather(features.float().contiguous())) for features in (out.text_embeds, out.image_embeds))
    logits = model.logit_scale.exp() * image @ text.T
    labels = torch.arange(len(logits), device="cuda")
    return (torch.nn.functional.cross_entropy(logits, labels) + torch.nn.functional.cross_entropy(logits.T, labels)) / 2

for step in range(4):
    with parallel.no_sync():
        (loss_of() / 2).backward()
    loss = loss_of() / 2
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        model.logit_scale.clamp_(0, 4.6052)
    average.update_parameters(model)
    if dist.get_rank() == 0:
        print(step, loss.item())
dist.destroy_process_group()
