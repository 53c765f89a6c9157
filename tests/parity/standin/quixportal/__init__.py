"""Stands in for the private package that the dependency's sink asks for its store: one local folder, and no more."""

# mypy: disable-error-code="import-untyped"
from typing import Any

from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from .storage.config import load_config_from_env


def get_filesystem(base_path: str | None = None) -> Any:
    """The folder of the environment, or one below it, as an fsspec file system that makes folders as a bucket does."""
    root = load_config_from_env().local_storage.directory_path
    return DirFileSystem(f"{root}/{base_path}" if base_path else root, LocalFileSystem(auto_mkdir=True))
