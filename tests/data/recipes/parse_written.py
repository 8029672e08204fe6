#!/usr/bin/env python3
"""Parses files that `shardscope convert` wrote with the tools' own classes: parse_written.py TOOL FILE...

TOOL is llama-factory (HfArgumentParser over the five dataclasses of llamafactory.hparams), trl (over ScriptArguments,
SFTConfig or DPOConfig, and ModelConfig), or axolotl and ms-swift with the folder of their source: names of the fields
of their classes, read with ast.
"""
import ast
import pathlib
import shlex
import sys

import yaml

tool, *rest = sys.argv[1:]


def field_names(folder):
    names = set()
    for path in pathlib.Path(folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                names |= {n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    return names


def trainer_names():
    import dataclasses

    import transformers

    return {field.name for field in dataclasses.fields(transformers.TrainingArguments)}


def report(file, what):
    print(f"{pathlib.Path(file).name}: {what}")


if tool in ("axolotl", "ms-swift"):
    source, *files = rest
    known = field_names(source) | (trainer_names() if tool == "ms-swift" else set())
    for file in files:
        text = pathlib.Path(file).read_text()
        if tool == "axolotl":
            keys = list(yaml.safe_load(text))
        else:
            keys = [word[2:] for word in shlex.split(text, comments=True) if word.startswith("--")]
        report(file, f"{len(keys)} keys, unknown: {sorted(set(keys) - known) or 'none'}")
    sys.exit()

from transformers import HfArgumentParser

for file in rest:
    value = yaml.safe_load(pathlib.Path(file).read_text())
    if tool == "llama-factory":
        from llamafactory.hparams.parser import _TRAIN_ARGS as classes

        value.setdefault("dataset", "identity")
    else:
        from trl import DPOConfig, ModelConfig, ScriptArguments, SFTConfig

        classes = (ScriptArguments, DPOConfig if "beta" in value else SFTConfig, ModelConfig)
        value.pop("num_processes", None)
    value.setdefault("output_dir", "out")
    # No GPU here: what the classes ask a device for is not what is checked.
    value["bf16"], bf16 = False, value.get("bf16")
    try:
        parsed = HfArgumentParser(classes).parse_dict(value, allow_extra_keys=False)
    except Exception as error:
        report(file, f"{type(error).__name__}: {error}")
        continue
    found = {}
    for part in parsed:
        found |= vars(part)

    def same(given, taken):
        """Enums by their value, words by the list that they become, "none" by no reporter."""
        taken = getattr(taken, "value", taken)
        if isinstance(taken, list):
            words = [str(getattr(part, "value", part)) for part in taken]
            return words == [str(part) for part in given] if isinstance(given, list) else words == str(given).split() or given == "none"
        return str(taken) == str(given)

    differing = {k: (v, found[k]) for k, v in value.items() if k in found and k != "output_dir" and not same(v, found[k])}
    report(file, f"{len(value)} keys, differing: {differing or 'none'}")
