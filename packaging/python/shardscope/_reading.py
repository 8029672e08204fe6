"""JSON objects as dataclasses. Keys that a class does not have are left out: new ones may be added."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from shardscope.errors import OutsideFailure

Answer = TypeVar("Answer")
Reader = Callable[[Any, str], Any]

_readers: dict[Any, Reader] = {}


def _wrong(where: str, expected: str, value: Any) -> OutsideFailure:
    return OutsideFailure(f"shardscope: {where}: expected {expected}, got {str(value)[:60]}; program and package differ in version")


def _reader_of_scalar(kind: type) -> Reader:
    accepted: tuple[type, ...] = (int, float) if kind is float else (kind,)

    def read_scalar(value: Any, where: str) -> Any:
        if not isinstance(value, accepted):
            raise _wrong(where, kind.__name__, value)
        return kind(value)

    return read_scalar


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _reader_of_class(kind: type) -> Reader:
    hints = typing.get_type_hints(kind)
    rows = [(field.name, _reader(hints[field.name]), _has_default(field))
            for field in dataclasses.fields(kind) if field.compare]

    def read_object(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        values = {}
        for name, reader, is_optional in rows:
            if name in value:
                values[name] = reader(value[name], f"{where}.{name}")
            elif not is_optional:
                raise _wrong(where, f"the key {name}", sorted(value))
        return kind(**values)

    return read_object


def _make_reader(kind: Any) -> Reader:
    if kind is Any:
        return lambda value, where: value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        inner = _reader(next(a for a in arguments if a is not type(None)))
        return lambda value, where: None if value is None else inner(value, where)
    if origin is tuple:
        item = _reader(arguments[0])

        def read_list(value: Any, where: str) -> Any:
            if not isinstance(value, list):
                raise _wrong(where, "a list", value)
            return tuple(item(one, f"{where}[{index}]") for index, one in enumerate(value))

        return read_list
    if isinstance(origin, type) and issubclass(origin, Mapping):
        entry = _reader(arguments[1])

        def read_map(value: Any, where: str) -> Any:
            if not isinstance(value, dict):
                raise _wrong(where, "an object", value)
            return {key: entry(one, f"{where}.{key}") for key, one in value.items()}

        return read_map
    if dataclasses.is_dataclass(kind):
        return _reader_of_class(typing.cast(type, kind))
    return _reader_of_scalar(kind)


def _reader(kind: Any) -> Reader:
    if kind not in _readers:
        _readers[kind] = _make_reader(kind)
    return _readers[kind]


def read(kind: type[Answer], value: Any, where: str) -> Answer:
    """`value` as a `kind`; a key that is missing or of another type raises OutsideFailure."""
    return typing.cast(Answer, _reader(kind)(value, where))
