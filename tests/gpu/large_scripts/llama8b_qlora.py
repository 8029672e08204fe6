"""Llama-3-8B in nf4 with double quantization, LoRA of rank 16 on all linear layers, paged 8-bit AdamW, checkpointing."""
import bitsandbytes
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                     vocab_size=128256, max_position_embeddings=8192, rope_theta=500000.0, use_cache=False)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = LlamaForCausalLM(config)
torch.set_default_dtype(torch.float32)
for block in model.model.layers:
    for part in (block.self_attn, block.mlp):
        for name, linear in list(part.named_children()):
            if not isinstance(linear, torch.nn.Linear):
                continue
            quantized = bitsandbytes.nn.Linear4bit(linear.in_features, linear.out_features, bias=False, compute_dtype=torch.bfloat16,
                                                   compress_statistics=True, quant_type="nf4", device="meta")
            quantized.weight = bitsandbytes.nn.Params4bit(linear.weight.data, requires_grad=False, compress_statistics=True,
                                                          quant_type="nf4").to("cuda")
            if not quantized.weight.bnb_quantized:
                quantized.weight = quantized.weight._quantize("cuda")
            setattr(part, name, quantized)
            del linear
model.is_loaded_in_4bit = True
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
model = prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
                                         task_type="CAUSAL_LM")).train()
optimizer = bitsandbytes.optim.PagedAdamW8bit([p for p in model.parameters() if p.requires_grad], lr=1e-4)
for _ in range(4):
    ids = torch.randint(0, config.vocab_size, (4, 2048), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
