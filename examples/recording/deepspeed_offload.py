"""DeepSpeed itself: ZeRO-2, the optimizer and its states on the host (DeepSpeedCPUAdam)."""
import deepspeed
import torch
from transformers import LlamaConfig, LlamaForCausalLM

deepspeed.init_distributed("nccl")
torch.manual_seed(0)
config = LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=12, vocab_size=32000,
                     use_cache=False)
settings = {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "gradient_clipping": 1.0,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
            "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}}}
model = LlamaForCausalLM(config)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (4, 512), device=engine.device)
    engine.backward(engine(input_ids=ids, labels=ids).loss)
    engine.step()
