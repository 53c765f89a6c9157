"""A REST catalog before the one of ``IcebergBench``, for answers that a good catalog never gives."""

import json
from collections.abc import Callable
from pathlib import Path

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableRequest, Table

from tests.fakes.canned_server import Answer, CannedServer, Request
from tests.unit.parts.iceberg.iceberg_bench import IcebergBench

Odd = Callable[[Request, Callable[[], Answer]], Answer]
TABLE = "/v1/namespaces/lake/tables/readings"


def refusal(status: int, kind: str, message: str) -> Answer:
    return Answer(status, json.dumps({"error": {"message": message, "type": kind, "code": status}}).encode())


class IcebergRest(CannedServer):
    """Knows one table; ``odd`` is asked for each answer, and may give the good one, which carries the request out."""

    def __init__(self, bench: IcebergBench, odd: Odd = lambda _, good: good()) -> None:
        super().__init__()
        self.odd = odd
        self._properties = dict(bench.properties)

    @property
    def commits(self) -> int:
        return [(each.method, each.path) for each in self.requests].count(("POST", TABLE))

    def next_answer(self, request: Request) -> Answer:
        self.requests.append(request)
        return self.odd(request, lambda: self._good(request))

    def _good(self, request: Request) -> Answer:
        if request.path.endswith("/config"):
            return Answer(body=b'{"defaults": {}, "overrides": {}}')
        if request.path.endswith("/oauth/tokens"):
            return Answer(body=b'{"access_token": "token-%d", "token_type": "bearer"}' % len(self.requests))
        catalog = load_catalog("default", **self._properties)
        try:
            table = catalog.load_table("lake.readings")
            if request.method == "POST":
                wanted = CommitTableRequest.model_validate_json(request.body)
                catalog.commit_table(table, wanted.requirements, wanted.updates)
                table = catalog.load_table("lake.readings")
        except CommitFailedException as error:
            return refusal(409, "CommitFailedException", str(error))
        except NoSuchTableError as error:
            return refusal(404, "NoSuchTableException", str(error))
        return _described(table)


def _described(table: Table) -> Answer:
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())  # of any format version
    return Answer(body=json.dumps({"metadata-location": table.metadata_location, "metadata": metadata}).encode())
