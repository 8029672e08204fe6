"""What PEFT makes of adapter_config.json files of AdaLoRA: python record.py > configs.json"""
import json

import peft
import torch
import transformers

SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=2, vocab_size=64)
TYPES = {
    "llama": SIZES, "qwen2": SIZES, "qwen3": SIZES, "gemma": SIZES, "gemma2": SIZES, "mistral": SIZES, "phi3": dict(SIZES, pad_token_id=0),
    "gpt2": dict(n_embd=32, n_layer=2, n_head=2, vocab_size=64), "gpt_neox": SIZES,
    "opt": dict(hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=2, vocab_size=64, word_embed_proj_dim=32),
    "bloom": dict(hidden_size=32, n_layer=2, n_head=2, vocab_size=64), "gptj": dict(n_embd=32, n_layer=2, n_head=2, vocab_size=64, rotary_dim=8),
}
FULL = {"peft_type": "ADALORA", "total_step": 100}
CASES = [(kind, dict(FULL)) for kind in TYPES] + [("llama", dict(FULL, **more)) for more in (
    {"target_modules": ["q_proj", "down_proj"], "init_r": 6},
    {"target_modules": "all-linear"},
    {"target_modules": ["embed_tokens"]},
    {"target_modules": ["q_proj"], "use_dora": True},
    {"target_modules": ["q_proj"], "total_step": None},
    {"target_modules": ["q_proj"], "total_step": 0},
    {"target_modules": ["q_proj"], "tinit": 60, "tfinal": 40},
    {"target_modules": ["q_proj"], "tinit": 59, "tfinal": 40},
    {"target_modules": ["q_proj"], "orth_reg_weight": -0.1},
    {"target_modules": ["q_proj"], "layers_to_transform": [1]},
    {"target_modules": ".*q_proj", "layers_to_transform": [1]},
    {"target_modules": ["q_proj"], "layers_pattern": ["layers"]},
    {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
)]


def made(kind, config):
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(kind, **TYPES[kind]))
    arguments = {key: value for key, value in config.items() if key != "peft_type"}
    model = peft.get_peft_model(model, peft.AdaLoraConfig(task_type="CAUSAL_LM", **arguments))
    prefix = "base_model.model."
    return {name[len(prefix):]: module.lora_A["default"].shape[0] for name, module in model.named_modules()
            if type(module).__name__ == "SVDLinear"}


recorded = []
for kind, config in CASES:
    case = {"model_type": kind, "config": config}
    try:
        case["ranks"] = made(kind, config)
    except Exception as error:
        case["error"] = f"{type(error).__name__}: {error}"
    recorded.append(case)
print(json.dumps({"peft": peft.__version__, "transformers": transformers.__version__, "cases": recorded}, indent=1))
