"""Training steps of TRL's trainers, and what PyTorch's caching allocator held at most in each part.

    shardscope record --time zero --cluster h100_sxm -- python record.py --trainer dpo --lora 0 --out case.json

Needs TRL 1.16, PEFT and datasets beside torch 2.15. The model has random weights; it is made in --folder first. Every
sequence has --length tokens, of which the first --prompt are a prompt. GRPO's completions are not generated: they are
given, so that what is recorded is the step of the policy alone.
"""
import argparse
import json
import os

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1")

parser = argparse.ArgumentParser()
for name, value in {"trainer": "dpo", "dtype": "float32", "out": "case.json", "folder": "trl_models",
                    "family": "llama", "storage": "uint8"}.items():
    parser.add_argument("--" + name, default=value)
for name, value in {"batch": 2, "length": 256, "prompt": 64, "lora": 0, "rank": 16, "hidden": 256, "layers": 2,
                    "heads": 4, "kv_heads": 2, "feed_forward": 704, "vocabulary": 40000, "tied": 0, "bf16": 1,
                    "checkpointing": 1, "precompute": 0, "micro_batches": 1, "steps": 2, "four_bits": 0,
                    "beta_percent": -1, "packing": 0, "dora": 0}.items():
    parser.add_argument("--" + name, type=int, default=value)
args = parser.parse_args()

import torch  # noqa: E402
import transformers  # noqa: E402
from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models  # noqa: E402

config = {"model_type": args.family, "hidden_size": args.hidden, "num_hidden_layers": args.layers,
          "num_attention_heads": args.heads, "num_key_value_heads": args.kv_heads,
          "intermediate_size": args.feed_forward, "vocab_size": args.vocabulary, "max_position_embeddings": 8192,
          "tie_word_embeddings": bool(args.tied)}
settings = transformers.AutoConfig.for_model(args.family, **{k: v for k, v in config.items() if k != "model_type"})
name = "_".join(str(value) for value in config.values())
folder = f"{args.folder}/{name}"
if not os.path.exists(folder):
    settings.architectures = None
    made = transformers.AutoModelForCausalLM.from_config(settings, dtype=torch.bfloat16)
    made.save_pretrained(folder)
    words = Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3}, unk_token="<unk>"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
                                         pad_token="<pad>").save_pretrained(folder)

common = {"output_dir": "out", "per_device_train_batch_size": args.batch, "max_steps": args.steps, "bf16": bool(args.bf16),
          "gradient_checkpointing": bool(args.checkpointing), "report_to": "none", "save_strategy": "no",
          "gradient_accumulation_steps": args.micro_batches, "logging_strategy": "no", "disable_tqdm": True,
          "model_init_kwargs": {"dtype": args.dtype}}
adapter = None
if args.lora:
    import peft
    adapter = peft.LoraConfig(r=args.rank, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear",
                              task_type="CAUSAL_LM", use_dora=bool(args.dora))
samples = args.batch * args.micro_batches * args.steps
completion = args.length - args.prompt
if args.trainer == "sft":
    import trl
    base, config_class = trl.SFTTrainer, trl.SFTConfig
    rows = {"input_ids": [[5] * args.length] * samples}
    if args.packing:
        # Two sequences a row, as the strategy "bfd" leaves them.
        rows["seq_lengths"] = [[args.length // 2, args.length - args.length // 2]] * samples
    data = Dataset.from_dict(rows)
    common["packing"] = bool(args.packing)
    common["max_length"] = args.length
    common["dataset_kwargs"] = {"skip_prepare_dataset": True}
elif args.trainer == "dpo":
    import trl
    base, config_class = trl.DPOTrainer, trl.DPOConfig
    data = Dataset.from_dict({"prompt_ids": [[5] * args.prompt] * samples, "chosen_ids": [[6] * completion] * samples,
                              "rejected_ids": [[7] * completion] * samples})
    common["max_length"] = args.length
    common["precompute_ref_log_probs"] = bool(args.precompute)
elif args.trainer == "dpo_logits":
    # What LLaMA-Factory's CustomDPOTrainer asks of PyTorch (ff6d4d1, train/dpo/trainer.py, train/trainer_utils.py).
    class Logits(transformers.Trainer):
        def concatenated_forward(self, model, batch):
            batch = {key: value.detach().clone() for key, value in batch.items()}
            labels = batch.pop("labels")
            logits = model(**batch, return_dict=True, use_cache=False).logits.to(torch.float32)
            labels, before = labels[:, 1:].clone(), logits[:, :-1, :]
            mask = labels != -100
            labels[labels == -100] = 0
            scores = torch.gather(before.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
            return (scores * mask).sum(-1).chunk(2), logits

        def compute_loss(self, model, inputs, *given, **named):
            (chosen, rejected), logits = self.concatenated_forward(model, inputs)
            with torch.no_grad(), self.accelerator.unwrap_model(model).disable_adapter():
                (old_chosen, old_rejected), _ = self.concatenated_forward(model, inputs)
            loss = -torch.nn.functional.logsigmoid(0.1 * ((chosen - rejected) - (old_chosen - old_rejected)))
            logits.chunk(2)[0].mean().item()
            return loss.mean()

    base, config_class = Logits, transformers.TrainingArguments
    common.pop("model_init_kwargs")
    common.update(max_grad_norm=1.0, remove_unused_columns=False)
    data = Dataset.from_dict({"input_ids": [[5] * args.length] * samples})
else:
    import trl
    base, config_class = trl.GRPOTrainer, trl.GRPOConfig
    data = Dataset.from_dict({"prompt": ["a"] * samples})
    common.update(max_completion_length=completion, num_generations=args.batch * args.micro_batches)
if args.beta_percent >= 0:
    common["beta"] = args.beta_percent / 100
if args.four_bits:
    common["model_init_kwargs"]["quantization_config"] = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=getattr(torch, args.dtype),
        bnb_4bit_quant_storage=getattr(torch, args.storage))

peaks = {}
step_peaks = []
moments = {"number": 0, "last": "start"}


def note(moment):
    stats = torch.cuda.memory_stats()
    peaks[moment] = {"allocated": stats["allocated_bytes.all.peak"], "active": stats["active_bytes.all.peak"],
                     "reserved": stats["reserved_bytes.all.peak"], "after": stats["allocated_bytes.all.current"]}
    torch.cuda.reset_peak_memory_stats()


class Recorded(base):
    def _prepare_dataset(self, dataset, *given, **named):
        return dataset  # it has ids already

    def training_step(self, *given, **named):
        note(f"{moments['number']}.before")
        result = super().training_step(*given, **named)
        note(f"{moments['number']}.backward")
        moments["number"] += 1
        return result

    def compute_loss(self, *given, **named):
        note(f"{moments['number']}.inputs")
        result = super().compute_loss(*given, **named)
        note(f"{moments['number']}.forward")
        return result



class Steps(transformers.TrainerCallback):
    def on_step_end(self, given, state, control, **named):
        note(f"step{state.global_step}")
        moments["number"] = 0
        step_peaks.append(dict(peaks))
        peaks.clear()


def reward(completions, **named):
    return [float(i % 2) for i in range(len(completions))]


def rollout(prompts, trainer):
    count = len(prompts)
    return {"prompt_ids": [[5] * args.prompt] * count, "completion_ids": [[6] * completion] * count, "logprobs": None}


def pairs(examples):
    ids = torch.tensor([example["input_ids"] for example in examples] * 2)
    labels = ids.clone()
    labels[:, :args.prompt] = -100
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


more = {"reward_funcs": reward, "rollout_func": rollout} if args.trainer == "grpo" else {}
if args.trainer == "dpo_logits":
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=args.dtype, device_map={"": 0})
    adapter.lora_dropout = 0.0  # disable_dropout_in_model
    loaded.enable_input_require_grads()
    trainer = Recorded(model=peft.get_peft_model(loaded, adapter), args=config_class(**common), train_dataset=data,
                       data_collator=pairs, callbacks=[Steps()])
else:
    trainer = Recorded(model=folder, args=config_class(**common), train_dataset=data, peft_config=adapter,
                       callbacks=[Steps()], **more)
note("setup")
trainer.train()
case = {k: v for k, v in vars(args).items() if k not in ("out", "folder")}
with open(args.out, "w") as file:
    json.dump({**case, "config": config, "peaks": step_peaks[-1]}, file, indent=1)
