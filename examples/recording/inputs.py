#!/usr/bin/env python3
"""inputs.py: makes, in the folder that is current, what the scripts of scripts.json read: small models with random weights, a tokenizer of
made-up words, and data sets of a few dozen rows. Nothing is downloaded. The names are those under which the scripts look on the
internet, so that they run as they are."""
import json
import pathlib
import random
import struct

import numpy
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = [first + vowel + last for first in "bdfgklmnprst" for vowel in "aeiou" for last in "dklmnrst"]
CHAT = ("{% for message in messages %}<|{{ message['role'] }}|> {{ message['content'] }} {{ eos_token }} {% endfor %}"
        "{% if add_generation_prompt %}<|assistant|> {% endif %}")
# Accuracy, in the place of the one that `evaluate` would fetch.
METRIC = '''import datasets
import evaluate


class Glue(evaluate.Metric):
    def _info(self):
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=datasets.Features(
            {"predictions": datasets.Value("int64"), "references": datasets.Value("int64")}))

    def _compute(self, predictions, references):
        return {"accuracy": sum(a == b for a, b in zip(predictions, references)) / max(1, len(references))}
'''
pick = random.Random(0)


def sentence(least, most):
    return " ".join(pick.choices(WORDS, k=pick.randint(least, most)))


def write_rows(path, rows):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_llama():
    special = ["<pad>", "<s>", "</s>", "<unk>", "<|system|>", "<|user|>", "<|assistant|>"]
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(special + WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained("llama")
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8,
                                 num_key_value_heads=4, vocab_size=len(tokenizer), pad_token_id=0, bos_token_id=1,
                                 eos_token_id=2)).save_pretrained("llama")


def write_bert():
    """Of BERT-base's own sizes."""
    folder = pathlib.Path("bert-base-cased")
    folder.mkdir(exist_ok=True)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    BertTokenizer(str(folder / "vocab.txt"), do_lower_case=False).save_pretrained(folder)
    torch.manual_seed(0)
    BertForSequenceClassification(BertConfig(vocab_size=28996)).save_pretrained(folder)


def write_texts():
    pairs = [{"sentence1": sentence(8, 30), "sentence2": sentence(8, 30), "label": pick.randint(0, 1), "idx": number}
             for number in range(288)]
    for split, rows in {"train": pairs[:256], "validation": pairs[256:272], "test": pairs[272:]}.items():
        write_rows(f"nyu-mll/glue/{split}.jsonl", rows)
    pathlib.Path("nyu-mll/glue/README.md").write_text(
        "---\nconfigs:\n- config_name: mrpc\n  data_files:\n" +
        "".join(f"  - split: {split}\n    path: {split}.jsonl\n" for split in ("train", "validation", "test")) + "---\n")
    pathlib.Path("glue").mkdir(exist_ok=True)
    pathlib.Path("glue/glue.py").write_text(METRIC)

    def said(role, least, most):
        return [{"role": role, "content": sentence(least, most)}]

    write_rows("conversations/train.jsonl", [{"messages": said("user", 5, 20) + said("assistant", 20, 60)} for _ in range(64)])
    write_rows("preferences/train.jsonl", [{"prompt": said("user", 5, 20), "chosen": said("assistant", 10, 40),
                                            "rejected": said("assistant", 10, 40)} for _ in range(64)])
    write_rows("prompts/train.jsonl", [{"prompt": said("user", 5, 20)} for _ in range(64)])
    pathlib.Path("words").mkdir(exist_ok=True)
    for name, lines in {"train": 120, "valid": 20, "test": 20}.items():
        pathlib.Path(f"words/{name}.txt").write_text("\n".join(sentence(10, 30) for _ in range(lines)) + "\n")


def write_tokens():
    """Of nanoGPT: token numbers of 16 bits."""
    folder = pathlib.Path("data/tiny")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("train", "val"):
        numpy.random.default_rng(0).integers(0, 50257, 50_000, dtype=numpy.uint16).tofile(folder / f"{name}.bin")


def write_images():
    from PIL import Image
    random_numbers = numpy.random.default_rng(0)
    for split, count in {"train": 24, "val": 8}.items():
        for kind in range(2):
            folder = pathlib.Path(f"images/{split}/kind{kind}")
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                Image.fromarray(random_numbers.integers(0, 256, (256, 256, 3), dtype=numpy.uint8)).save(folder / f"{number}.jpg")
    digits = pathlib.Path("data/MNIST/raw")
    digits.mkdir(parents=True, exist_ok=True)
    for name, count in {"train": 512, "t10k": 128}.items():
        (digits / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 2051, count, 28, 28) + random_numbers.integers(0, 256, count * 28 * 28, dtype=numpy.uint8).tobytes())
        (digits / f"{name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 2049, count) + random_numbers.integers(0, 10, count, dtype=numpy.uint8).tobytes())


if __name__ == "__main__":
    write_llama()
    write_bert()
    write_texts()
    write_tokens()
    try:
        write_images()
    except ImportError as error:
        print(f"no images: {error}")
