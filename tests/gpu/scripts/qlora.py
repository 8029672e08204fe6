"""QLoRA: a Llama in nf4 with double quantization, LoRA on all linear layers, paged 8-bit AdamW, checkpointing."""
import tempfile

import bitsandbytes
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, vocab_size=32000,
                     use_cache=False)
with tempfile.TemporaryDirectory() as folder:
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    model = LlamaForCausalLM.from_pretrained(
        folder, device_map={"": 0}, dtype=torch.bfloat16, quantization_config=BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16))
model = prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")).train()
optimizer = bitsandbytes.optim.PagedAdamW8bit([p for p in model.parameters() if p.requires_grad], lr=1e-4)
for _ in range(4):
    ids = torch.randint(0, 32000, (4, 512), device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
