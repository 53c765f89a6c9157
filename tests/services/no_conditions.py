"""MinIO as a store of those that know no conditional writes, in the three ways that there are."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from dev.minio import LocalMinio
from tests.faults.proxy import Answer, Exchange, FaultProxy, Request, Rule, Say

_CONDITIONS = frozenset({"if-match", "if-none-match"})
_REFUSAL = b"<Error><Code>NotImplemented</Code><Message>A header that you sent is not implemented.</Message></Error>"


@contextmanager
def refusing_conditions(server: LocalMinio) -> Iterator[FaultProxy]:
    """As Backblaze B2 does it: a request with a condition is answered with 501."""
    with FaultProxy(server.endpoint_url) as proxy:
        proxy.add(Rule(_is_conditional, Say(Answer(501, _REFUSAL, {"Content-Type": "application/xml"}))))
        yield proxy


@contextmanager
def replacing_nothing(server: LocalMinio) -> Iterator[FaultProxy]:
    """As DigitalOcean Spaces was seen to: with ``If-Match`` no version is the one that was named."""
    refusal = b"<Error><Code>PreconditionFailed</Code></Error>"
    with FaultProxy(server.endpoint_url) as proxy:
        answer = Answer(412, refusal, {"Content-Type": "application/xml"})
        proxy.add(Rule(lambda request: "if-match" in request.headers, Say(answer)))
        yield proxy


@contextmanager
def ignoring_conditions(server: LocalMinio, *conditions: str) -> Iterator[FaultProxy]:
    """As Garage does it: a request with a condition, or one of ``conditions``, is carried out as if it had none."""
    ignored = frozenset(conditions) or _CONDITIONS

    def has_one(request: Request) -> bool:
        return not ignored.isdisjoint(request.headers)

    with FaultProxy(server.endpoint_url) as proxy:
        proxy.add(Rule(has_one, _Unconditional(server)))
        yield proxy


@contextmanager
def ignoring_conditions_of_parts(server: LocalMinio) -> Iterator[FaultProxy]:
    """A store that heeds conditions, but not where the parts of an upload are put together."""
    with FaultProxy(server.endpoint_url) as proxy:
        proxy.add(Rule(lambda request: request.method == "POST" and _is_conditional(request), _Unconditional(server)))
        yield proxy


def _is_conditional(request: Request) -> bool:
    return not _CONDITIONS.isdisjoint(request.headers)


@dataclass(frozen=True)
class _Unconditional:
    server: LocalMinio

    def meet(self, exchange: Exchange) -> None:
        exchange.answer(exchange.forward(self._without_conditions))

    def _without_conditions(self, request: Request) -> Request:
        """The request without them, signed anew: a signature is for all headers."""
        headers = {name: value for name, value in request.headers.items() if name not in _CONDITIONS}
        del headers["authorization"]
        place = urlsplit(self.server.endpoint_url)._replace(path="", query="").geturl()
        asked = AWSRequest(request.method, f"{place}{request.target}", headers, request.body)
        keys = Credentials(self.server.access_key, self.server.secret_key)
        S3SigV4Auth(keys, "s3", self.server.region).add_auth(asked)
        return replace(request, headers={name.lower(): str(value) for name, value in asked.headers.items()})
