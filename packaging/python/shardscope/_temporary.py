"""Temporary folders that live as long as an answer that may be asked for more."""

from __future__ import annotations


def folder_for(owner: object) -> str:
    """A new folder, removed with `owner` or with the process."""
    import shutil
    import tempfile
    import weakref

    path = tempfile.mkdtemp(prefix="shardscope-")
    weakref.finalize(owner, shutil.rmtree, path, ignore_errors=True)
    return path
