"""Requests schemas from a schema registry with Confluent's API."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

from app.catalog.base import NotTakenError
from app.errors import ConnectorError, FatalError, RetryableError, cut
from app.model import RegisteredSchema, SchemaId
from app.parts.http.rest_client import Answer, Patience, Service
from app.reason_texts import Reason

SERVICE = Service(
    "the schema registry",
    "SCHEMA_REGISTRY_URL",
    "SCHEMA_REGISTRY_USERNAME and SCHEMA_REGISTRY_PASSWORD, or SCHEMA_REGISTRY_TOKEN",
    "SCHEMA_REGISTRY_SSL_CA_LOCATION",
)
_PATIENCE = Patience(connect=5.0, read=10.0, whole=15.0)
_MOST_REFERENCES = 100
_REFERENCES_BYTES, _REFERENCES_SECONDS = 16 << 20, 30.0
_DESCRIPTOR = "?format=serialized"  # requests the descriptor of a Protobuf schema, in base64
_SHOWN = 300  # maximum number of characters of a schema in a text
_SUBJECTS = "/subjects?limit=1"
_TRIES, _TRY_SECONDS = 5, 15.0  # for a schema that gets no answer, although the registry answers other requests
_MOST_FAILED = 1_000  # maximum number of failed schemas in memory
_MOST_WAITED_FOR, _WAITED_FOR_SECONDS = 3, 300.0  # three schemas in 300 s have several tries, and others one try


class Client(Protocol):
    """Sends requests to a registry with Confluent's API, and raises the errors of ``RestClient``."""

    def ask(self, method: str, path: str, doing: str, /, *, patience: Patience) -> Answer: ...


class SchemaRegistry:
    """A registry. Only one thread may use this object. ``subject`` is usually the subject of the first topic."""

    def __init__(self, url: str, client: Client, subject: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.subject = subject
        self._latest = f"/subjects/{quote(subject, safe='')}/versions/latest"
        self._others = (_SUBJECTS, self._latest)  # requests that also need the login
        self._clock = clock
        self._client = client
        self._url, self._is_of_glue = url, url.startswith("glue://")
        self._answered: str | None = None  # the path of a schema that the registry has returned
        self._failed: dict[SchemaId, list[float]] = {}  # the times of failed tries for each schema
        self._given_up: deque[float] = deque(maxlen=_MOST_WAITED_FOR)

    def find(self, schema: SchemaId) -> RegisteredSchema:
        """Return the schema with this id.

        Raises:
            ValueError: The registry has no usable schema for this id, and answers other requests.
            RetryableError: The registry answers no request, or may soon answer the request for this schema.
        """
        path = f"/schemas/{f'ids/{schema}' if isinstance(schema, int) else f'guids/{schema}'}"
        doing = f"asking the schema registry at {self._url} for the schema with the id {schema}"
        try:
            fields = self._ask_for(path, doing)
            if fields is not None:
                with _form_checked(doing):
                    references = self._references(fields, doing)
                    others = tuple(references.values()), tuple(references)
                    registered = RegisteredSchema(_kind(fields), fields["schema"], *others, self._is_of_glue)
                self._answered = path
                self._failed.pop(schema, None)
                return registered
        except (FatalError, RetryableError) as error:
            if self._is_of_registry(schema, error):
                after = getattr(error, "retry_after", None)
                raise RetryableError(error.doing, error.cause, error.hint, retry_after=after).of("registry") from error
            raise ValueError(Reason("the schema registry refuses its schema").also("", f": {error.cause}")) from None
        raise ValueError(Reason("the schema registry has no schema with its id: see SCHEMA_REGISTRY_URL"))

    def _is_of_registry(self, schema: SchemaId, error: ConnectorError) -> bool:
        """Return whether an error affects all schemas, so that a retry may help. False: only this schema."""
        others = filter(None, (self._answered, *self._others))
        if isinstance(error, NotTakenError) or not any(map(self._answers, others)):
            return True
        if isinstance(error, FatalError):
            return False
        if len(self._failed) >= _MOST_FAILED:
            self._failed.clear()
        now, tries = self._clock(), self._failed.setdefault(schema, [])
        tries.append(now)
        if len(self._given_up) == _MOST_WAITED_FOR and self._given_up[0] > now - _WAITED_FOR_SECONDS:
            return False
        if len(tries) < _TRIES and now - tries[0] < _TRY_SECONDS:
            return True
        self._given_up.append(now)
        return False

    def _answers(self, path: str) -> bool:
        """Return whether the registry answers this request correctly."""
        try:
            answer = self._client.ask("GET", path, "sending another request", patience=_PATIENCE)
            is_valid = answer.status == HTTPStatus.OK and isinstance(json.loads(answer.body), dict | list)
            return is_valid or (answer.status == HTTPStatus.NOT_FOUND and _is_of_registry(answer))
        except (ConnectorError, ValueError, RecursionError):
            return False

    def latest(self) -> str | None:
        """Return a text about the latest schema of the subject; ``None`` if the subject does not exist."""
        doing = f"asking the schema registry at {self._url} for the subject {self.subject}"
        fields = self._ask(self._latest, doing)
        if fields is None:
            return None
        with _form_checked(doing):
            text = "" if _kind(fields) == "PROTOBUF" else f": {cut(fields['schema'], _SHOWN)}"  # no binary data
            return f"{_kind(fields)}, version {fields['version']}, id {fields['id']}{text}"

    def _references(self, fields: Mapping[str, Any], doing: str) -> Mapping[str, str]:
        """Return the texts of all referenced schemas by name. A schema is after the schemas that it references."""
        texts: dict[str, str] = {}
        begun: set[str] = set()
        deadline = self._clock() + _REFERENCES_SECONDS

        def add(references: Any) -> None:
            for reference in references or ():
                path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{int(reference['version'])}"
                if path in begun:
                    continue
                if len(begun) >= _MOST_REFERENCES:
                    raise FatalError(doing, f"it references more than {_MOST_REFERENCES} other schemas")
                begun.add(path)
                inner = self._ask_for(path, doing)
                if inner is None:
                    raise FatalError(doing, f"the registry lacks {path}, which the schema references")
                add(inner.get("references"))
                texts[reference["name"]] = inner["schema"]
                if self._clock() > deadline or sum(map(len, texts.values())) > _REFERENCES_BYTES:
                    most = f"{_REFERENCES_BYTES >> 20} MB or {_REFERENCES_SECONDS:.0f} s"
                    raise FatalError(doing, f"the schemas that it references take more than {most}")

        add(fields.get("references"))
        return texts

    def _ask_for(self, path: str, doing: str) -> Mapping[str, Any] | None:
        """Request a schema. If the schema is a Protobuf text, request the descriptor instead."""
        fields = self._ask(path, doing)
        if fields and _kind(fields) == "PROTOBUF" and ";" in fields["schema"] and not self._is_of_glue:
            return self._ask(path + _DESCRIPTOR, doing)
        return fields

    def _ask(self, path: str, doing: str) -> Mapping[str, Any] | None:
        answer = self._client.ask("GET", path, doing, patience=_PATIENCE)
        if answer.status == HTTPStatus.NOT_FOUND and _is_of_registry(answer):
            return None
        if answer.status != HTTPStatus.OK:
            raise FatalError(doing, answer.summary, f"Check {SERVICE.url_variable}")
        fields = answer.json_object(doing)
        if not isinstance(fields.get("schema"), str):
            raise FatalError(doing, "the answer has no schema", f"Check {SERVICE.url_variable}")
        return fields


def _is_of_registry(answer: Answer) -> bool:
    """Return whether the registry has sent this 404. A proxy or another service may answer 404 to all requests."""
    try:
        return int(json.loads(answer.body)["error_code"]) // 100 == HTTPStatus.NOT_FOUND  # 40401, 40403, …
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _kind(fields: Mapping[str, Any]) -> str:
    return fields.get("schemaType") or "AVRO"  # a registry omits the type AVRO


@contextmanager
def _form_checked(doing: str) -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        cause = f"the answer does not have the form of a registry's answer: {error!r}"
        raise FatalError(doing, cause, f"Check {SERVICE.url_variable}") from None
