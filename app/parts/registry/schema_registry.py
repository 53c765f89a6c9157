"""Asks a schema registry that has the API of Confluent's for the schemas that records were written with."""

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
_DESCRIPTOR = "?format=serialized"  # of a schema in Protobuf, in base64
_SHOWN = 300  # characters of a schema
_SUBJECTS = "/subjects?limit=1"
_TRIES, _TRY_SECONDS = 5, 15.0  # for a schema without an answer, while the registry answers other questions
_MOST_FAILED = 1_000  # that are remembered
_MOST_WAITED_FOR, _WAITED_FOR_SECONDS = 3, 300.0  # such schemas: for others in this time one try has to do


class Client(Protocol):
    """Answers as the API of Confluent's registry does; raises what ``RestClient`` does."""

    def ask(self, method: str, path: str, doing: str, /, *, patience: Patience) -> Answer: ...


class SchemaRegistry:
    """A registry; to be used by one thread at a time. ``subject`` has those of the first topic's values, as a rule."""

    def __init__(self, url: str, client: Client, subject: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.subject = subject
        self._latest = f"/subjects/{quote(subject, safe='')}/versions/latest"
        self._others = (_SUBJECTS, self._latest)  # questions that need the login, as those for schemas
        self._clock = clock
        self._client = client
        self._url, self._is_of_glue = url, url.startswith("glue://")
        self._answered: str | None = None  # the path of a schema that the registry has given
        self._failed: dict[SchemaId, list[float]] = {}  # when tries had no answer, while others were answered
        self._given_up: deque[float] = deque(maxlen=_MOST_WAITED_FOR)

    def find(self, schema: SchemaId) -> RegisteredSchema:
        """Returns the schema with this id.

        Raises:
            ValueError: the registry has no usable schema for this id, and answers other questions well.
            RetryableError: it answers none, or may answer this one soon.
        """
        path = f"/schemas/{f'ids/{schema}' if isinstance(schema, int) else f'guids/{schema}'}"
        doing = f"asking the schema registry at {self._url} for the schema with the id {schema}"
        try:
            found = self._ask_for(path, doing)
            if found is not None:
                with _in_this_form(doing):
                    references = self._references(found, doing)
                    others = tuple(references.values()), tuple(references)
                    its = RegisteredSchema(_kind(found), found["schema"], *others, self._is_of_glue)
                self._answered = path
                self._failed.pop(schema, None)
                return its
        except (FatalError, RetryableError) as error:
            if self._is_of_registry(schema, error):
                after = getattr(error, "retry_after", None)
                raise RetryableError(error.doing, error.cause, error.hint, retry_after=after).of("registry") from error
            raise ValueError(Reason("the schema registry refuses its schema").also("", f": {error.cause}")) from None
        raise ValueError(Reason("the schema registry has no schema with its id: see SCHEMA_REGISTRY_URL"))

    def _is_of_registry(self, schema: SchemaId, error: ConnectorError) -> bool:
        """Whether an error is the registry's, which is to be waited for, and not that of this one schema."""
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
        """Whether the registry answers this question well."""
        try:
            answer = self._client.ask("GET", path, "asking another question", patience=_PATIENCE)
            is_there = answer.status == HTTPStatus.OK and isinstance(json.loads(answer.body), dict | list)
            return is_there or (answer.status == HTTPStatus.NOT_FOUND and _is_of_registry(answer))
        except (ConnectorError, ValueError, RecursionError):
            return False

    def latest(self) -> str | None:
        """Describes the latest schema of the subject; ``None`` if the registry does not know the subject."""
        doing = f"asking the schema registry at {self._url} for the subject {self.subject}"
        found = self._ask(self._latest, doing)
        if found is None:
            return None
        with _in_this_form(doing):
            text = "" if _kind(found) == "PROTOBUF" else f": {cut(found['schema'], _SHOWN)}"  # else a descriptor
            return f"{_kind(found)}, version {found['version']}, id {found['id']}{text}"

    def _references(self, found: Mapping[str, Any], doing: str) -> Mapping[str, str]:
        """Returns the texts of all schemas that a schema names, by name, each behind those that it names itself."""
        texts: dict[str, str] = {}
        begun: set[str] = set()
        until = self._clock() + _REFERENCES_SECONDS

        def add(references: Any) -> None:
            for each in references or ():
                path = f"/subjects/{quote(each['subject'], safe='')}/versions/{int(each['version'])}"
                if path in begun:
                    continue
                if len(begun) >= _MOST_REFERENCES:
                    raise FatalError(doing, f"it names more than {_MOST_REFERENCES} other schemas")
                begun.add(path)
                inner = self._ask_for(path, doing)
                if inner is None:
                    raise FatalError(doing, f"the registry lacks {path}, which the schema names")
                add(inner.get("references"))
                texts[each["name"]] = inner["schema"]
                if self._clock() > until or sum(map(len, texts.values())) > _REFERENCES_BYTES:
                    most = f"{_REFERENCES_BYTES >> 20} MB or {_REFERENCES_SECONDS:.0f} s"
                    raise FatalError(doing, f"the schemas that it names take more than {most}")

        add(found.get("references"))
        return texts

    def _ask_for(self, path: str, doing: str) -> Mapping[str, Any] | None:
        """Asks for a schema, and where it is a text of Protobuf, for its descriptor."""
        found = self._ask(path, doing)
        if found and _kind(found) == "PROTOBUF" and ";" in found["schema"] and not self._is_of_glue:
            return self._ask(path + _DESCRIPTOR, doing)
        return found

    def _ask(self, path: str, doing: str) -> Mapping[str, Any] | None:
        answer = self._client.ask("GET", path, doing, patience=_PATIENCE)
        if answer.status == HTTPStatus.NOT_FOUND and _is_of_registry(answer):
            return None
        if answer.status != HTTPStatus.OK:
            raise FatalError(doing, answer.summary, f"Check {SERVICE.url_variable}")
        found = answer.json_object(doing)
        if not isinstance(found.get("schema"), str):
            raise FatalError(doing, "the answer has no schema", f"Check {SERVICE.url_variable}")
        return found


def _is_of_registry(answer: Answer) -> bool:
    """Whether this 404 is the registry's own: a proxy or another service says so too, of each address."""
    try:
        return int(json.loads(answer.body)["error_code"]) // 100 == HTTPStatus.NOT_FOUND  # 40401, 40403, …
    except (ValueError, LookupError, TypeError, RecursionError):
        return False


def _kind(found: Mapping[str, Any]) -> str:
    return found.get("schemaType") or "AVRO"  # a registry does not name this kind


@contextmanager
def _in_this_form(doing: str) -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        cause = f"the answer has another form than a registry's: {error!r}"
        raise FatalError(doing, cause, f"Check {SERVICE.url_variable}") from None
