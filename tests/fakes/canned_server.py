"""A real HTTP server that says what it is told to, for answers that no well server can be made to give."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.http_fake import FakeHandler, HttpFake


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def conditions(self) -> dict[str, str]:
        return {name: value for name, value in self.headers.items() if name in ("if-match", "if-none-match")}

    def json(self) -> Any:
        return json.loads(self.body)


class CannedServer(HttpFake):
    """Gives its answers one after another, and the last one for ever; ``before`` is called before each."""

    def __init__(self, *answers: Answer, before: Callable[[], object] = lambda: None) -> None:
        super().__init__(_Handler)
        self.before = before
        self.requests: list[Request] = []
        self._answers = list(answers)

    def answers(self, *answers: Answer) -> None:
        self._answers = list(answers)

    def answer_first(self, answer: Answer) -> None:
        self._answers.insert(0, answer)

    @property
    def methods(self) -> list[str]:
        return [request.method for request in self.requests]

    def next_answer(self, request: Request) -> Answer:
        self.requests.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class _Handler(FakeHandler):
    def _answer(self) -> None:
        body = self.read_body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.fake.before()
        answer = self.fake.next_answer(Request(self.command, self.path, headers, body))
        self.reply(answer.status, answer.body, answer.headers)

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - the names are the base class's
