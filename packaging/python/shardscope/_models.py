"""Models and configurations of Python as files that the program reads."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Callable, Optional, Union

from shardscope import _program
from shardscope._temporary import folder_for
from shardscope.errors import BadInput, OutsideFailure

Path = Union[str, "os.PathLike[str]"]

# What a module is called with: tensors, or texts as "int64[B,T]", in their order or by name.
Inputs = Union[Sequence[Any], Mapping[str, Any], None]

# How deep a source tree lies above this package, where the export script is not beside it.
_TREE = os.path.join("..", "..", "..", "examples", "pytorch")


class Files:
    """Temporary files that arguments of the program name; removed with the last use."""

    def __init__(self) -> None:
        self._folder = ""

    def write(self, name: str, text: str) -> str:
        self._folder = self._folder or folder_for(self)
        path = os.path.join(self._folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


def script(name: str) -> ModuleType:
    """A script of examples/pytorch, which the wheel carries."""
    import importlib.util

    for folder in (os.path.join(_program.own_folder(), "scripts"), os.path.join(_program.own_folder(), _TREE)):
        path = os.path.join(folder, f"{name}.py")
        if os.path.exists(path):
            spec = importlib.util.spec_from_file_location(f"shardscope._scripts.{name}", path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise OutsideFailure(f"shardscope: {name}.py is missing in this package; install the wheel again")


def _torch_module(model: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _config_json(config: Any) -> dict[str, Any]:
    values = json.loads(config.to_json_string(use_diff=False))
    assert isinstance(values, dict)
    return values


def _parameters(answer: Mapping[str, Any]) -> list[tuple[str, tuple[int, ...], bool]]:
    return [(row["name"], tuple(row["shape"]), row["trainable"]) for row in answer["parameters"]]


def _is_model_of(path: str, model: Any) -> bool:
    """Is the model that of its config, as no adapter, frozen weight or new layer makes it?"""
    have = [(name, tuple(p.shape), bool(p.requires_grad)) for name, p in model.named_parameters()]
    try:
        return _parameters(_program.ask("model", [path])) == have
    except BadInput:  # a family that the program does not know
        return False


def _transformers_file(model: Any, files: Files) -> Optional[str]:
    """The config.json of a model of transformers; None where it does not tell the whole model."""
    values = _config_json(model.config)
    values["architectures"] = [type(model).__name__]
    values["dtype"] = str(next(model.parameters()).dtype).removeprefix("torch.")
    path = files.write("config.json", json.dumps(values, indent=1))
    return path if _is_model_of(path, model) else None


@dataclasses.dataclass(frozen=True)
class Step:
    """What a training step of an exported module is traced with."""

    inputs: Inputs = None
    loss: Optional[Callable[[Any], Any]] = None
    batches: Sequence[int] = (1,)
    seq: Optional[int] = None
    precision: Optional[str] = None


def _input(name: Optional[str], value: Any) -> str:
    """A tensor, or a text as "int64[B,T]", in the words of export_model.py."""
    if not isinstance(value, str):
        value = f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]"
    return value if name is None else f"{name}={value}"


def _inputs(inputs: Inputs) -> Optional[list[str]]:
    if inputs is None:
        return None
    if isinstance(inputs, Mapping):
        return [_input(name, value) for name, value in inputs.items()]
    return [_input(None, value) for value in inputs]


def _exported(model: Any, step: Step) -> str:
    export = script("export_model")
    try:
        return str(export.export_module(model, batch=list(step.batches), seq=step.seq or 128, inputs=_inputs(step.inputs), loss=step.loss,
                                        precision=None if step.precision is None else step.precision.split(",")))
    except export.ExportError as error:
        raise BadInput(f"shardscope: model: {error}") from error


def model_file(model: object, files: Files, step: Step = Step()) -> str:
    """A path as it stands; a transformers model or config as config.json; any other nn.Module, or one that was changed, as an export."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if isinstance(model, Mapping):
        return files.write("config.json", json.dumps(dict(model)))
    if _torch_module(model):
        of_config = _transformers_file(model, files) if hasattr(getattr(model, "config", None), "to_json_string") else None
        return of_config or files.write("model.json", _exported(model, step))
    if hasattr(model, "to_json_string"):
        return files.write("config.json", json.dumps(_config_json(model), indent=1))
    raise BadInput(f"shardscope: model: expected a path, a torch.nn.Module or a config of transformers, got {type(model).__name__}; "
                   "give one of them")


def settings_file(settings: object, name: str, files: Files) -> str:
    """A configuration: a path as it stands; a dict, or an object of transformers, as JSON."""
    if isinstance(settings, (str, os.PathLike)):
        return os.fspath(settings)
    if isinstance(settings, Mapping):
        return files.write(f"{name}.json", json.dumps(dict(settings)))
    to_json: Any = getattr(settings, "to_json_string", None)
    if callable(to_json):
        return files.write(f"{name}.json", str(to_json()))
    raise BadInput(f"shardscope: {name}: expected a path, a dict or TrainingArguments, got {type(settings).__name__}; give one of them")
