"""A question to the program that may be asked again, to have its pictures and its trace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from shardscope import _program
from shardscope._temporary import folder_for


@dataclass
class Request:
    """`shardscope VERB ARGUMENTS -o OUTPUT`, run when the first file of it is wanted."""

    verb: str
    arguments: tuple[str, ...]
    answers: tuple[int, ...] = (0,)
    output: str = ""  # of -o, below the folder; "": the folder itself
    keep: Sequence[object] = ()  # what must live as long: temporary files that the arguments name
    _folder: str = field(default="", repr=False)

    def folder(self) -> str:
        """Where -o leaves its files, before the program has run."""
        if not self._folder:
            self._folder = folder_for(self)
        return os.path.join(self._folder, self.output or "run")

    def file(self, name: str) -> str:
        """Path of one file of the answer."""
        folder = self.folder()
        if not os.path.exists(folder):
            _program.text_of(self.verb, [*self.arguments, "-o", folder], self.answers)
        return folder if self.output else os.path.join(folder, name)

    def text(self, name: str, missing: Optional[str] = None) -> str:
        """Content of one file; `missing` where the program did not write it, unless that is None."""
        path = self.file(name)
        if missing is not None and not os.path.exists(path):
            return missing
        with open(path, encoding="utf-8") as file:
            return file.read()

    def save(self, folder: str) -> None:
        """A copy of what -o leaves."""
        import shutil

        shutil.copytree(self.file("."), folder, dirs_exist_ok=True)
