#!/usr/bin/env python3
"""Training settings by chance, in the format of the reference cases' recorders: families x runtimes x settings.

    random_cases.py memory|families|float8|liger|cut|parallel COUNT SEED [FAMILY...] > cases.json

What the recorders run from them with PyTorch on the simulated device, `check_recordings allocator` and `check_recordings
parallel` compare with the ported rules (tests/recordings/agreement_test)."""
import json
import random
import sys

FAMILIES = {
    "gpt2-tiny": {"n_layer": [1, 2, 3, 5], "n_embd": [64, 96, 128], "vocab_size": [1000, 1003, 2048]},
    "llama-tiny": {"num_hidden_layers": [1, 2, 3, 4], "intermediate_size": [176, 250, 512], "vocab_size": [1000, 1001]},
    "qwen3-tiny": {"num_hidden_layers": [1, 2, 4], "intermediate_size": [250, 384], "vocab_size": [1003, 4096]},
    "bert-tiny": {"num_hidden_layers": [1, 2, 3], "intermediate_size": [256, 200], "vocab_size": [1000, 1021]},
}


# Of families that the recorder does not know: whole configs.
DECODER = {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 3, "num_attention_heads": 4,
           "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0}
CONFIGS = {
    "afmoe": {**DECODER, "head_dim": 16, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
              "num_shared_experts": 1, "sliding_window": 32, "global_attn_every_n_layers": 2, "mup_enabled": True},
    "arcee": {**DECODER, "head_dim": 16},
    "cohere": {**DECODER, "use_qk_norm": True},
    "cohere2": {**DECODER, "sliding_window": 32, "sliding_window_pattern": 2},
    "deepseek_v3": {**DECODER, "num_key_value_heads": 4, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 4,
                    "topk_group": 2, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16,
                    "v_head_dim": 16, "moe_intermediate_size": 48, "first_k_dense_replace": 1},
    "dots1": {**DECODER, "head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
              "moe_intermediate_size": 48, "first_k_dense_replace": 1, "sliding_window": 32, "max_window_layers": 2},
    "ernie4_5": {**DECODER, "head_dim": 16},
    "exaone4": {**DECODER, "sliding_window": 32, "sliding_window_pattern": 2},
    "gemma": {**DECODER, "head_dim": 32},
    "gemma4_text": {**DECODER, "head_dim": 16, "global_head_dim": 32, "num_hidden_layers": 4, "sliding_window": 32,
                    "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 1000, "num_kv_shared_layers": 0},
    "glm": {**DECODER, "head_dim": 16},
    "glm4_moe": {**DECODER, "head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
                 "moe_intermediate_size": 48, "first_k_dense_replace": 1, "use_qk_norm": True},
    "granitemoehybrid": {**DECODER, "num_local_experts": 0, "shared_intermediate_size": 176, "position_embedding_type": "rope",
                         "layer_types": None, "mamba_n_heads": 4, "embedding_multiplier": 12.0, "logits_scaling": 8.0,
                         "residual_multiplier": 0.22, "attention_multiplier": 0.0625},
    "hunyuan_v1_dense": {**DECODER, "head_dim": 16},
    "lfm2": {**DECODER, "layer_types": None, "full_attn_idxs": [1, 3], "block_multiple_of": 32},
    "lfm2_moe": {**DECODER, "layer_types": None, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
                 "num_dense_layers": 1},
    "llama4_text": {**DECODER, "head_dim": 16, "intermediate_size_mlp": 200, "num_local_experts": 4, "num_experts_per_tok": 1,
                    "interleave_moe_layer_step": 2, "no_rope_layer_interval": 2, "attention_chunk_size": 64, "floor_scale": 16},
    "minimax_m2": {**DECODER, "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 2, "rotary_dim": 8},
    "ministral": {**DECODER, "sliding_window": 32},
    "ministral3": {**DECODER, "head_dim": 16},
    "olmo3": {**DECODER, "sliding_window": 32},
    "seed_oss": {**DECODER, "head_dim": 16, "attention_bias": True},
    "gpt_oss": {**DECODER, "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 32},
    "granite": {**DECODER, "embedding_multiplier": 12.0, "logits_scaling": 8.0, "residual_multiplier": 0.22,
                "attention_multiplier": 0.0625},
    "gemma3_text": {**DECODER, "head_dim": 32, "num_hidden_layers": 3, "sliding_window": 32, "layer_types": None,
                    "sliding_window_pattern": 2},
    "glm4": {**DECODER, "head_dim": 16},
    "olmo": {**DECODER, "clip_qkv": 8.0},
    "olmo2": DECODER,
    "olmoe": {**DECODER, "num_experts": 8, "num_experts_per_tok": 2, "clip_qkv": 8.0},
    "phi": DECODER,
    "qwen2_moe": {**DECODER, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 80, "num_experts": 8,
                  "num_experts_per_tok": 2, "mlp_only_layers": [1]},
    "qwen3_moe": {**DECODER, "head_dim": 16, "moe_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 2,
                  "norm_topk_prob": True, "mlp_only_layers": [1]},
    "smollm3": {**DECODER, "num_hidden_layers": 4},
    "stablelm": DECODER,
    "starcoder2": DECODER,
}


LIGER = {"mistral": DECODER, "phi3": DECODER, "qwen2": DECODER, "smollm3": CONFIGS["smollm3"]}


def _sharded(pick, case):
    case["world"] = pick([2, 3, 4, 8, 64])
    case["mp"] = pick([None, "bf16", "bf16_fp32"])
    if case["strategy"] == "ddp":
        case["mp"] = None
        case["ddp"] = pick([{}, {"gradient_as_bucket_view": True}, {"bucket_cap_mb": 1}])
    elif case["strategy"] == "fsdp1":
        case["fsdp1"] = pick([{}, {}, {"use_orig_params": True}, {"limit_all_gathers": False},
                              {"sharding_strategy": "SHARD_GRAD_OP"}, {"sharding_strategy": "NO_SHARD"}])
    else:
        case["reshard"] = pick([True, True, False])
        case["init"] = pick(["device", "meta"])


def memory_case(pick):
    family = pick(list(FAMILIES))
    case = {"model": family, "strategy": pick(["none", "ddp", "fsdp1", "fsdp2"]),
            "model_overrides": {key: pick(values) for key, values in FAMILIES[family].items() if pick([0, 1])},
            "B": pick([1, 2, 3, 4, 7]), "T": pick([16, 33, 64, 100, 128]), "ac": pick([0, 0, 1, 2]),
            "optimizer": pick(["adamw", "adamw", "sgd", "sgd_momentum", "adam_l2"]),
            "opt_impl": pick(["foreach", "foreach", "fused", "forloop"]), "clip": pick([None, None, 1.0]),
            "loss": pick(["outside", "model"]), "hold_logits": pick([False, True]),
            "set_to_none": pick([True, True, False]), "lag": pick([0, 0, 1]),
            "conf": pick(["", "", "expandable_segments:True"])}
    if case["strategy"] == "none":
        case["autocast"] = pick([False, True])
        case["param_dtype"] = "fp32" if case["autocast"] else pick(["fp32", "bf16"])
        case["accum"] = pick([1, 1, 2])
    else:
        _sharded(pick, case)
    return case


def family_case(pick):
    case = memory_case(pick)
    # StableLM's backward frees in another order than PyTorch's: one case in fifteen splits a segment otherwise.
    family = pick(sys.argv[4:] or [name for name in CONFIGS if name != "stablelm"])
    overrides = {"num_hidden_layers": [1, 2, 4], "intermediate_size": [250, 512], "vocab_size": [1003, 2048]}
    case.update(model=family, model_config={"model_type": family, **CONFIGS[family]},
                model_overrides={key: pick(values) for key, values in overrides.items() if pick([0, 1])})
    if family == "granitemoehybrid":  # the class has no default without state-space layers
        layers = case["model_overrides"].get("num_hidden_layers", DECODER["num_hidden_layers"])
        case["model_config"]["layer_types"] = ["full_attention"] * layers
    if family == "lfm2_moe":
        layers = case["model_overrides"].get("num_hidden_layers", DECODER["num_hidden_layers"])
        case["model_config"]["layer_types"] = ["conv", "full_attention", "conv", "full_attention"][:layers]
    if family == "gpt_oss":
        case["attn"] = "eager"  # transformers has no other
    if family in ("gpt_oss", "minimax_m2") and "intermediate_size" in case["model_overrides"]:
        case["model_overrides"]["intermediate_size"] = 256  # of an expert: rows of a multiple of 16 bytes
    return case


def float8_case(pick):
    """torchao's float8 in the linear layers of a model whose sizes divide by 16, as accelerate converts them."""
    def trains_in_float8(case):
        has_linear_layers = case["model"] not in ("gpt2-tiny", "qwen3_moe")
        whole_precision_shards = case["strategy"] == "fsdp2" and case.get("mp") is None
        return has_linear_layers and case["strategy"] != "fsdp1" and not whole_precision_shards

    def any_case():
        return family_case(pick) if pick([0, 1]) else memory_case(pick)

    case = any_case()
    while not trains_in_float8(case):
        case = any_case()
    case["float8"] = pick(["tensorwise", "rowwise"])
    case["T"], case["conf"] = pick([16, 64, 128]), ""  # the allocator reads its settings once, when torchao is imported
    return case


def liger_case(pick):
    """Liger's kernels in the place of a decoder's own, as the Trainer's use_liger_kernel puts them there."""
    case = family_case(pick) if pick([0, 1]) else memory_case(pick)
    if not case["model"].startswith(("llama", "qwen3-")):
        case["model"] = pick(list(LIGER))
        case["model_config"] = {"model_type": case["model"], **LIGER[case["model"]]}
        case["model_overrides"] = {key: value for key, value in case["model_overrides"].items()
                                   if key in ("num_hidden_layers", "intermediate_size", "vocab_size")}
    case["liger"] = True
    case["attn"] = "sdpa"
    case["loss"] = pick(["model", "model", "outside"])
    return case


def cut_case(pick):
    """The loss of cut-cross-entropy, whose backward takes hidden states in bf16."""
    case = liger_case(pick)
    del case["liger"]
    case.update(cut=True, loss="model", param_dtype="bf16", autocast=False)
    if case.get("mp"):
        case["mp"] = "bf16"
    return case


PARALLEL_FAMILIES = ["tp"] * 5 + ["tp_fsdp"] * 5 + ["tp_hsdp"] * 3 + ["cp"] * 2 + ["cp_fsdp"] * 3 + ["pp"] * 6 + ["ep"] * 3 + ["float8"] * 5 + [
    "transformers"] * 2
PIPELINES = {"GPipe": [1], "1F1B": [1], "Interleaved1F1B": [2, 3], "LoopedBFS": [2], "InterleavedZeroBubble": [2], "ZBVZeroBubble": [2]}


def _mesh_of(pick, family):
    tensor, shard = pick([2, 4, 8]), pick([2, 3, 4])
    return {"tp": {"tp": tensor}, "transformers": {"tp": pick([2, 4])}, "tp_fsdp": {"dp_shard": shard, "tp": tensor},
            "tp_hsdp": {"dp_replicate": pick([2, 3]), "dp_shard": pick([2, 4]), "tp": pick([2, 4])},
            "cp": {"cp": pick([2, 4])},
            "cp_fsdp": {"dp_shard": pick([2, 4]), "cp": pick([2, 4]), **pick([{}, {"tp": 2}])},
            "pp": {"pp": pick([2, 4]), **pick([{"dp_shard": 2}, {"dp_shard": 3}, {"dp_replicate": 2, "dp_shard": 2}]),
                   **pick([{}, {}, {"tp": 2}])},
            "float8": {**pick([{"dp_shard": shard}, {"dp_replicate": 2, "dp_shard": 2}]), **pick([{}, {"tp": pick([2, 4])}])},
            "ep": pick([{"dp_shard": 2, "ep": 2}, {"dp_shard": 4, "ep": 4}, {"dp_shard": 4, "ep": 2, "ep_shard": 2},
                        {"dp_shard": 8, "ep": 4, "ep_shard": 2}])}[family]


def _float8_settings(pick, case):
    case["float8"] = {"recipe": pick(["tensorwise", "tensorwise", "rowwise"])}
    if case["float8"]["recipe"] == "tensorwise":
        case["float8"]["fsdp_all_gather"] = pick([False, True])
        case["float8"]["precompute_scale"] = case["float8"]["fsdp_all_gather"] and pick([False, True])
        if "tp" in case["mesh"]:
            case["float8"]["tp"] = pick([True, True, False])
            case["sp"] = case["sp"] or case["float8"]["tp"]
    case["mp"] = "bf16_fp32"


def _pipeline_settings(pick, case):
    case["schedule"] = pick(list(PIPELINES))
    case["stages"] = pick(PIPELINES[case["schedule"]])
    stages = case["stages"] * case["mesh"]["pp"]
    case["model"]["layers"] = pick([1, 1, 2]) * stages
    case["microbatches"] = pick([1, 2]) * case["mesh"]["pp"]
    case["B"] = pick([1, 2]) * case["microbatches"]
    case["ac"] = case["ac"] and case["schedule"] not in ("ZBVZeroBubble", "InterleavedZeroBubble")
    case["loss_parallel"] = False
    case["T"] = pick([64, 128])


def parallel_case(pick):
    """Tensor, context, pipeline and expert parallelism and float8, alone and with FSDP2 and HSDP."""
    family = pick(PARALLEL_FAMILIES)
    case = {"family": family, "mesh": _mesh_of(pick, family), "B": pick([1, 2, 3, 4]), "T": pick([32, 64, 128, 256]),
            "ac": pick([False, True]), "optimizer": pick(["adamw_fused", "adamw_fused", "adamw_foreach", "adamw_forloop", "sgd_foreach", "sgd_forloop"]),
            "clip": pick([None, None, 1.0]), "sp": False,
            "model": {"layers": pick([1, 2, 3]), "vocab": pick([1000, 1024, 2048]), "hidden": pick([256, 512, 1024]),
                      "dim": pick([256, 512]), "heads": 8, "kv": pick([4, 8])}}
    if family == "tp_fsdp" and pick([0, 0, 1]):
        case["model"]["vocab"] = 1003
    mesh = case["mesh"]
    if "tp" in mesh and family != "transformers":
        case["sp"] = pick([False, True, True])
        case["loss_parallel"] = case["sp"] and pick([False, True])
        case["embedding"] = pick(["rowwise", "rowwise", "colwise"]) if case["sp"] else "rowwise"
        case["model"]["kv"] = 8 if mesh["tp"] == 8 else case["model"]["kv"]
    if "dp_shard" in mesh:
        case["mp"] = pick([None, "bf16", "bf16_fp32", "bf16_fp32"])
        case["reshard"] = pick([True, True, False])
    else:
        case["param_dtype"] = pick(["fp32", "bf16", "bf16"])
    if "cp" in mesh:
        case.update(rotate=pick(["allgather", "alltoall"]), load_balance=pick([True, True, False]), T=pick([64, 128, 256]))
    if family == "ep":
        case.update(experts=pick([1, 2, 4]) * mesh["ep"], top_k=pick([1, 2]))
    if family == "pp":
        _pipeline_settings(pick, case)
    if family == "float8":
        _float8_settings(pick, case)
    if family == "transformers":
        case["plan"] = "transformers"
    # Operators of lists and fused ones refuse tensors of two meshes side by side, and so does the norm over all.
    mixed = ("tp" in mesh and not case["sp"]) or family == "ep"
    if mixed:
        case["clip"] = None
        case["optimizer"] = "adamw_forloop"
    case["world"] = 1
    for axis, size in mesh.items():
        case["world"] *= size if not axis.startswith("ep") else 1
    case["ranks"] = sorted({0, pick(range(case["world"]))} if family == "pp" else {pick(range(case["world"]))})
    return case


def main():
    kind, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    pick = random.Random(seed).choice
    make = {"memory": memory_case, "families": family_case, "float8": float8_case, "liger": liger_case, "cut": cut_case,
            "parallel": parallel_case}[kind]
    print(json.dumps([{"name": f"random-{seed}-{number}", **make(pick)} for number in range(count)], indent=1))


if __name__ == "__main__":
    main()
