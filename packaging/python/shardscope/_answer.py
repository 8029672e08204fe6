"""What all answers share. One constructor for all: dataclasses would compile six functions for each class, which takes most of the
time of an import."""

from __future__ import annotations

import dataclasses
from typing import Any


class Answer:
    """A value that cannot be changed. Its fields are those of a dataclass."""

    def __init__(self, **values: Any) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if field.name in values:
                value = values.pop(field.name)
            elif field.default is not dataclasses.MISSING:
                value = field.default
            elif field.default_factory is not dataclasses.MISSING:
                value = field.default_factory()
            else:
                raise TypeError(f"{type(self).__name__} needs {field.name}")
            self.__dict__[field.name] = value
        if values:
            raise TypeError(f"{type(self).__name__} has no {sorted(values)[0]}")

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _shown(self) -> dict[str, Any]:
        return {field.name: self.__dict__[field.name] for field in dataclasses.fields(self) if field.compare}  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Answer) and self._shown() == other._shown()

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._shown().items())})"
