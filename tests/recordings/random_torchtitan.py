#!/usr/bin/env python3
"""torchtitan 0.3 with settings by chance, recorded on a device that is not there, as a file like those of tests/data/torchtitan.

    random_torchtitan.py SHARDSCOPE PYTHON FOLDER COUNT SEED CASES [KEY=VALUE...]

PYTHON has torchtitan 0.3.0; FOLDER has its tests/assets, and takes the recordings; CASES is the file that is written. Each KEY=VALUE (JSON) fixes what would be drawn, such as
family='"qwen3"'. What torchtitan itself refuses is said on stderr and left out. With SHARDSCOPE_TORCHTITAN_CASES=CASES the tests
TorchtitanExperts.* compare the file, too."""
import json
import os
import random
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = dict(qwen3_moe=("qwen3", "qwen3_moe_debug"), deepseek_v3=("deepseek_v3", "deepseek_v3_debugmodel"),
               gpt_oss=("gpt_oss", "gpt_oss_debugmodel_flex"), llama3=("llama3", "llama3_debugmodel"), qwen3=("qwen3", "qwen3_debugmodel"))
DENSE = ("llama3", "qwen3")
SHARED_KEYS = dict(hidden_size=256, vocab_size=2048, tie_word_embeddings=False, hidden_act="silu", max_position_embeddings=4096)


def config_of(case):
    """The config.json of the small model that torchtitan_experts.py trains."""
    own = dict(
        llama3=dict(model_type="llama", architectures=["LlamaForCausalLM"], num_attention_heads=4, num_key_value_heads=2, head_dim=64,
                    intermediate_size=case["hidden"], attention_bias=False, mlp_bias=False, rms_norm_eps=1e-5, rope_theta=500000.0),
        qwen3=dict(model_type="qwen3", architectures=["Qwen3ForCausalLM"], num_attention_heads=16, num_key_value_heads=8, head_dim=128,
                   intermediate_size=case["hidden"], attention_bias=False, mlp_bias=False, rms_norm_eps=1e-5, rope_theta=1000000.0,
                   use_sliding_window=False, tie_word_embeddings=case.get("tied", False)),
        qwen3_moe=dict(model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], num_attention_heads=16, num_key_value_heads=8,
                       head_dim=128, intermediate_size=768, moe_intermediate_size=case["hidden"], num_experts=case["experts"],
                       num_experts_per_tok=case["top_k"], norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                       attention_bias=False, rms_norm_eps=1e-6),
        deepseek_v3=dict(model_type="deepseek_v3", architectures=["DeepseekV3ForCausalLM"], num_attention_heads=8, num_key_value_heads=8,
                         q_lora_rank=None, kv_lora_rank=192, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
                         intermediate_size=1024, moe_intermediate_size=case["hidden"], n_routed_experts=case["experts"],
                         num_experts_per_tok=case["top_k"], n_shared_experts=2, first_k_dense_replace=1, n_group=1, topk_group=1,
                         norm_topk_prob=False, scoring_func="softmax", routed_scaling_factor=1.0, attention_bias=False, rms_norm_eps=1e-6),
        gpt_oss=dict(model_type="gpt_oss", architectures=["GptOssForCausalLM"], num_attention_heads=64, num_key_value_heads=8, head_dim=64,
                     intermediate_size=case["hidden"], attention_bias=True, num_local_experts=case["experts"],
                     num_experts_per_tok=case["top_k"], sliding_window=128, rms_norm_eps=1e-5))[case["family"]]
    return dict(SHARED_KEYS, num_hidden_layers=case["layers"], **own)


def layers_of_stages(layers, stages):
    """As torchtitan deals them out: the embedding counts as one layer, norm and output as another."""
    each = [(layers + 2) // stages + (stage < (layers + 2) % stages) for stage in range(stages)]
    return [count - (stage == 0) - (stage == stages - 1) for stage, count in enumerate(each)]


def drawn(pick, fixed):
    """Settings of one case; those in `fixed` are not drawn."""
    def choose(key, values):
        value = pick(values)  # drawn always, so that what is fixed changes nothing else
        return fixed.get(key, value)

    family = choose("family", ["llama3", "qwen3", "qwen3_moe", "deepseek_v3", "gpt_oss"])
    world = choose("world", [2, 4, 4, 8])
    left, axes = world, {}
    for axis in ("pipeline", "tensor", "context", "replicas"):
        axes[axis] = choose(axis, [1, 1, 1, 2] if left > 1 else [1])
        left //= axes[axis]
    shards = left * axes["context"] * axes["tensor"]
    expert_ranks = 1 if family in DENSE else choose("expert_ranks", [n for n in (1, 2, 4, 8) if n <= shards and shards % n == 0])
    compiled = choose("compiled", [False, False, False, True])
    case = dict(family=family, layers=choose("layers", [2, 2, 3, 4]), experts=choose("experts", [8, 16]), top_k=choose("top_k", [1, 2, 4]),
                checkpointing=choose("checkpointing", ["none", "selective", "full"]), hidden=choose("hidden", [512, 640, 768]))
    if choose("float8", [False, False, False, True]) and family in DENSE:
        case["float8"] = "rowwise"
    if family == "qwen3" and fixed.get("tied"):
        case["tied"] = True
    row = dict(world=world, rank=choose("rank", list(range(world))), expert_ranks=expert_ranks, replicas=axes["replicas"],
               tensor=axes["tensor"], context=axes["context"], pipeline=axes["pipeline"], compiled=compiled,
               tokens=choose("tokens", [512, 1024]), batch=choose("batch", [1, 2, 3]), micro_batches=choose("micro_batches", [1, 1, 2]),
               precision=choose("precision", ["bf16_mixed", "bf16_mixed", "bf16", "fp32"]),
               reshards=choose("reshards", [True, True, False]))
    schedule = choose("schedule", ["1F1B", "1F1B", "GPipe", "Interleaved1F1B"])
    if axes["pipeline"] > 1:
        row.update(schedule=schedule, reshards=False, batch=1 if axes["tensor"] > 1 else row["batch"], micro_batches=choose("parts", [2, 4]))
        row["stages_per_rank"] = 2 if schedule == "Interleaved1F1B" else 1
        case["layers"] = choose("layers", [4, 6])
        row["stage_layers"] = layers_of_stages(case["layers"], axes["pipeline"] * row["stages_per_rank"])
    return case, row


def options_of(case, row):
    module, config = MODULES[case["family"]]
    own = row["batch"] * (row["micro_batches"] if row["pipeline"] > 1 else 1)
    shards = row["world"] // row["replicas"] // row["context"] // row["tensor"] // row["pipeline"]
    options = {"module": module, "config": config, "training.steps": 3, "training.seq_len": row["tokens"], "training.local_batch_size": own,
               "training.global_batch_size": own * shards * row["replicas"] * (1 if row["pipeline"] > 1 else row["micro_batches"]),
               "parallelism.data_parallel_replicate_degree": row["replicas"], "parallelism.data_parallel_shard_degree": shards,
               "parallelism.context_parallel_degree": row["context"], "parallelism.tensor_parallel_degree": row["tensor"],
               "parallelism.pipeline_parallel_degree": row["pipeline"], "parallelism.expert_parallel_degree": row["expert_ranks"],
               "parallelism.fsdp_reshard_after_forward": "default" if row["pipeline"] > 1 or row["reshards"] else "never",
               "metrics.log_freq": 1000}
    if row["pipeline"] > 1:
        options.update({"parallelism.pipeline_parallel_schedule": row["schedule"],
                        "parallelism.pipeline_parallel_microbatch_size": row["batch"]})
    if row["precision"] == "bf16":
        options["training.dtype"] = "bfloat16"
    if row["precision"] == "fp32":
        options["training.mixed_precision_param"] = "float32"
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    words += ["--training.disable_cuda_graphs", "--checkpoint.no-enable"] + (["--compile.enable"] if row["compiled"] else [])
    return words + ([] if case["family"] in DENSE else ["--debug.moe_force_load_balance"])


def recorded(shardscope, python, folder, name, case, row):
    """The row with what PyTorch did; None where the run failed."""
    run = os.path.join(folder, name)
    script = os.path.join(HERE, "torchtitan_experts.py")
    place = [] if row["pipeline"] > 1 else ["--rank", str(row["rank"])]
    command = [shardscope, "record", "--world", str(row["world"]), *place, "--time", "model", "--cluster", "h100_sxm", "--quiet", "-o", run,
               "--", python, script, json.dumps(case), *options_of(case, row)]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    open(run + ".log", "w").write(done.stdout)
    peaks = [int(found[1]) for found in re.findall(r"(peak) (\d+) of rank " + str(row["rank"]) + r"\b", done.stdout)]
    if done.returncode != 0 or len(peaks) != 3:
        errors = [line for line in done.stdout.splitlines() if "Error" in line]
        print(f"{name}: not recorded: {errors[-1:] or done.stdout[-300:]}", file=sys.stderr, flush=True)
        return None
    told = subprocess.run([python, script, "--case", run, str(row["rank"])], stdout=subprocess.PIPE, text=True, check=True)
    all_of_it = dict(json.loads(told.stdout), **row)
    return dict(name=name, dense=case["family"] in DENSE, untuned=True, peak_bytes=peaks[-1], config=config_of(case), **all_of_it)


def main():
    shardscope, python, folder, count, seed, out = sys.argv[1:7]
    fixed = {key: json.loads(value) for key, value in (word.split("=", 1) for word in sys.argv[7:])}
    pick = random.Random(int(seed)).choice
    rows = []
    for number in range(int(count)):
        case, row = drawn(pick, fixed)
        name = f"random_{seed}_{number}"
        print(name, json.dumps(case), json.dumps(row), file=sys.stderr, flush=True)
        found = recorded(os.path.abspath(shardscope), python, folder, name, case, row)
        if found:
            rows.append(found)
            with open(out, "w") as file:
                json.dump(dict(torchtitan="0.3.0", torch="2.15.0", tokens=512, config={}, cases=rows), file)


if __name__ == "__main__":
    main()
