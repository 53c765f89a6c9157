"""The dependency's sink as it comes: filled and flushed as quixstreams does it, over a folder in place of the store."""

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from fsspec.implementations.dirfs import DirFileSystem  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

from tests.fakes.catalog_server import CatalogServer
from tests.parity.case import PREFIX, TABLE, TOPIC, Case, Record
from tests.parity.lake import Lake, Outcome


class Theirs:
    """Writes the batches of a case into ``folder``, whose own name is the bucket's."""

    def __init__(self, case: Case, folder: Path, catalog: CatalogServer) -> None:
        folder.mkdir(exist_ok=True)
        self._case = case
        self._folder = folder
        self._catalog = catalog
        self._lake = Lake(folder, catalog)
        self._lake.news()  # what is there already is not ours
        self._sink: Any = None

    def write(self, batch: Sequence[Record]) -> Outcome:
        with _platform(self._folder) as module:
            self._sink = self._sink or self._new_sink(module)
            for record in batch:
                value, key, timestamp = record.value, record.key, record.timestamp
                self._sink.add(value, key, timestamp, [], TOPIC, record.partition, record.number)
            self._sink.flush()
        return self._lake.news()

    def close(self) -> None:
        if self._sink is not None:
            self._sink.cleanup()
            self._sink = None

    def _new_sink(self, module: Any) -> Any:
        case = self._case
        sink = module.QuixTSDataLakeSink(
            s3_prefix=PREFIX,
            table_name=TABLE,
            workspace_id="",
            hive_columns=list(case.order),
            timestamp_column=case.timestamp_column,
            sort_column=case.sort_column or None,
            stats_columns=case.stats_columns.split(",") if case.stats_columns else None,
            catalog_url=self._catalog.url,
            catalog_auth_token=self._catalog.token,
            auto_discover=case.auto_discover,
            max_workers=2,
        )
        sink.setup()
        return sink


class _Provider(StrEnum):
    """All kinds of stores that the dependency's sink compares with; only the last is there."""

    S3 = "S3"
    MINIO = "Minio"
    S3_COMPATIBLE = "S3Compatible"
    GCP = "Gcp"
    AZURE = "Azure"
    LOCAL = "Local"


class _Portal(SimpleNamespace):
    """In place of the private package that the dependency's sink asks for its store; a module of it."""

    BlobStorageProvider = _Provider
    folder: Path  # the store; its own name is taken for the bucket's

    @classmethod
    def get_filesystem(cls, base_path: str = "") -> Any:
        return DirFileSystem(str(cls.folder / base_path), LocalFileSystem(auto_mkdir=True))  # as a bucket does

    @classmethod
    def load_config_from_env(cls) -> Any:
        return SimpleNamespace(provider=_Provider.LOCAL, local_storage=SimpleNamespace(directory_path=str(cls.folder)))


@contextmanager
def _platform(folder: Path) -> Iterator[Any]:
    """The sink's module, in surroundings like those of Quix Cloud; its pause between two tries takes no time."""
    _Portal.folder = folder
    for name in ("quixportal", "quixportal.storage", "quixportal.storage.config"):
        sys.modules.setdefault(name, _Portal())  # type: ignore[arg-type]
    module: Any = importlib.import_module("quixstreams.sinks.core.quix_ts_datalake_sink")
    impatient = SimpleNamespace(perf_counter=module.time.perf_counter, sleep=lambda _: None)
    with patch.object(module, "time", impatient):
        yield module
