"""What a refusal of a store means: each SDK has a table of rules, and all are read in the same way."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from app.errors import ConnectorError, RetryableError
from app.http_headers import retry_after


@dataclass(frozen=True, slots=True)
class Rule:
    """The class of the error that a refusal becomes, and what to do about it."""

    error: type[ConnectorError]
    hint: str = ""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may pass a moment later."""
        return issubclass(self.error, RetryableError)

    def apply(self, doing: str, cause: str, headers: Mapping[str, str], hint: str = "") -> ConnectorError:
        """The error about ``doing``; ``hint`` is for a rule without one, and ``headers`` are in lower case."""
        if self.may_pass:
            return RetryableError(doing, cause, self.hint or hint, retry_after=retry_after(headers))
        return self.error(doing, cause, self.hint or hint)


PASSES: Final = Rule(RetryableError)


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """The rules of one kind of store.

    Args:
        by_name: by what the store calls the error.
        passing: HTTP statuses that may pass, beside those of servers (5xx).
        lasting: those of servers that do not.
    """

    by_name: Mapping[str, Rule]
    passing: frozenset[int] = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
    lasting: frozenset[int] = frozenset({HTTPStatus.NOT_IMPLEMENTED})

    def find(self, name: str, status: int) -> Rule | None:
        """The rule for a refusal, ``None`` where there is none. What may pass by its status does so by any name."""
        rule = self.by_name.get(name)
        if rule is not None and rule.may_pass:
            return rule
        is_server_error = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in self.lasting
        return PASSES if is_server_error or status in self.passing else rule
