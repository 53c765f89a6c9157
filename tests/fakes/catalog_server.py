"""A catalog to test against: a real HTTP server that keeps what it got and refuses what the contract forbids."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Event, Lock
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from tests.fakes.catalog_contract import Json, Refused, Table, files_of, new_table, source_of
from tests.fakes.http_fake import FakeHandler, HttpFake

_BASE = "/api/v1"


@dataclass(frozen=True)
class Trouble:
    """Something that goes wrong with a request; requests whose path does not end with ``only`` pass it by.

    Args:
        status: answer with it, and do nothing of what was asked.
        body: goes with ``status``.
        headers: go with ``status``.
        delay: seconds until the request is looked at; a stopping server waits no longer.
        lost: do what was asked, then hang up instead of answering.
        only: how the path must end, e.g. ``add-files``.
    """

    status: int | None = None
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    lost: bool = False
    only: str = ""


@dataclass(frozen=True)
class Received:
    """A request as it came; ``body`` is decoded JSON, or the text of what is none; ``client`` its own port."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    client: int


class CatalogServer(HttpFake):
    """Without troubles it behaves; ``trouble`` scripts what goes wrong next. ``tables`` are by ``namespace.name``.

    One that ``folds`` has names in lower case, as AWS Glue and Hive do.
    """

    def __init__(self, token: str = "catalog-token", *, folds: bool = False) -> None:  # noqa: S107
        super().__init__(_Handler)
        self.token = token
        self.folds = folds
        self.tables: dict[str, Table] = {}
        self.requests: list[Received] = []
        self.stopping = Event()
        self._troubles: list[Trouble] = []
        self._lock = Lock()

    @property
    def url(self) -> str:
        return super().url + _BASE

    def files(self, table: str, namespace: str = "default") -> list[Json]:
        with self._lock:
            known = self.tables.get(f"{namespace}.{table}")
            return list(known.files.values()) if known else []

    def trouble(self, trouble: Trouble, times: int = 1) -> None:
        """Let the next ``times`` matching requests meet it, after the troubles scripted before."""
        with self._lock:
            self._troubles += [trouble] * times

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stopping.set()
        super().__exit__(kind, error, trace)

    def receive(self, request: Received) -> Trouble | None:
        """Keep the request, and give the trouble it is to meet."""
        with self._lock:
            self.requests.append(request)
            for number, trouble in enumerate(self._troubles):
                if request.path.endswith(trouble.only):
                    return self._troubles.pop(number)
        return None

    def answer(self, request: Received) -> tuple[int, Json]:
        try:
            with self._lock:
                return HTTPStatus.OK, self._done(request)
        except Refused as refused:
            return refused.status, {"error": refused.reason}

    def _done(self, request: Received) -> Json:
        if not request.path.startswith(f"{_BASE}/"):
            raise Refused(HTTPStatus.NOT_FOUND, f"nothing at {request.path}")
        match request.method, [unquote(part) for part in request.path.removeprefix(_BASE).split("/")[1:]]:
            case "GET", ["health"]:
                return {"status": "healthy"}
            case method, ["namespaces", namespace, "tables", table, *rest]:
                self._require_token(request)
                name = f"{namespace}.{table}"
                return self._done_with_table(method, name.lower() if self.folds else name, rest, request)
            case _:
                raise Refused(HTTPStatus.NOT_FOUND, f"nothing at {request.path}")

    def _done_with_table(self, method: str, name: str, rest: list[str], request: Received) -> Json:
        match method, rest:
            case "GET", []:
                return self._known(name).description()
            case "PUT", []:
                wanted = new_table(_json_of(request))
                table = self.tables.setdefault(name, wanted)  # the first location stays
                return {**table.description(), "location_conflict": table.location != wanted.location}
            case "POST", ["manifest", "add-files"]:
                files, source = files_of(_json_of(request))
                self._known(name).add(files)
                if source is not None:
                    self._known(name).count(files, source)
                return {"message": "Files added to manifest"}
            case "PATCH", ["properties"]:
                self._known(name).change(_json_of(request))
                return self._known(name).description()
            case "POST", ["sources"]:
                self._known(name).add_source(source_of(_json_of(request)))
                return {"message": "Source registered"}
            case _:
                raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"no {method} at {request.path}")

    def _known(self, name: str) -> Table:
        if name not in self.tables:
            raise Refused(HTTPStatus.NOT_FOUND, f"no table {name}")
        return self.tables[name]

    def _require_token(self, request: Received) -> None:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            raise Refused(HTTPStatus.UNAUTHORIZED, "wrong or missing token")


def _json_of(request: Received) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the content type is not application/json")
    return request.body


class _Handler(FakeHandler):
    def _answer(self) -> None:
        raw = self.read_body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Received(self.command, self.path, headers, _decoded(raw), self.client_address[1])
        catalog: CatalogServer = self.fake
        trouble = catalog.receive(request) or Trouble()
        stopped = catalog.stopping.wait(trouble.delay)
        if trouble.status is not None:
            self.reply(trouble.status, trouble.body, trouble.headers)
            return
        status, document = (0, {}) if stopped else catalog.answer(request)
        if stopped or trouble.lost:
            self.close_connection = True
        else:
            self.reply(status, json.dumps(document).encode(), {"Content-Type": "application/json"})

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names are the base class's


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode(errors="replace")
