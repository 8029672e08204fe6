"""PEFT beyond LoRA: the kind of adapter by name, on a small Llama, with bf16 base weights."""
import sys
import torch
from peft import (AdaLoraConfig, BOFTConfig, IA3Config, LoHaConfig, LNTuningConfig, OFTConfig, PrefixTuningConfig, PromptTuningConfig, VeraConfig, get_peft_model)
from transformers import LlamaConfig, LlamaForCausalLM

targets = ["q_proj", "v_proj"]
kinds = {"adalora": AdaLoraConfig(task_type="CAUSAL_LM", target_modules=targets, total_step=100, tinit=1, tfinal=50, deltaT=1),
         "ia3": IA3Config(task_type="CAUSAL_LM", target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]),
         "loha": LoHaConfig(task_type="CAUSAL_LM", target_modules=targets, r=8),
         "vera": VeraConfig(task_type="CAUSAL_LM", target_modules=targets, r=64),
         "oft": OFTConfig(task_type="CAUSAL_LM", target_modules=targets, oft_block_size=32),
         "prefix": PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=20),
         "prompt": PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=20),
         "norms": LNTuningConfig(task_type="CAUSAL_LM")}
model = LlamaForCausalLM(LlamaConfig(hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=4)).to("cuda", torch.bfloat16)
model = get_peft_model(model, kinds[sys.argv[1]])
model.print_trainable_parameters()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
for step in range(4):
    tokens = torch.randint(0, 32000, (4, 512), device="cuda")
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    if sys.argv[1] == "adalora":
        model.base_model.update_and_allocate(step + 2)
    optimizer.zero_grad()
    print(step, loss.item())
