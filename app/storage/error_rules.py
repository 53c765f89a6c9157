"""Rules that map a store's refusals to errors; each SDK has a table of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from app.errors import ConnectorError, RetryableError
from app.http_headers import retry_after


@dataclass(frozen=True, slots=True)
class Rule:
    """The error class for a refusal, and its hint."""

    error: type[ConnectorError]
    hint: str = ""

    @property
    def may_pass(self) -> bool:
        """Whether the error is retryable."""
        return issubclass(self.error, RetryableError)

    def apply(self, doing: str, cause: str, headers: Mapping[str, str], hint: str = "") -> ConnectorError:
        """Makes the error; ``hint`` is for a rule without one, names in ``headers`` are in lower case."""
        if self.may_pass:
            return RetryableError(doing, cause, self.hint or hint, retry_after=retry_after(headers))
        return self.error(doing, cause, self.hint or hint)


PASSES: Final = Rule(RetryableError)


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """The rules of one kind of store: ``passing`` statuses beside 5xx, and the 5xx that are ``lasting``."""

    by_name: Mapping[str, Rule]
    passing: frozenset[int] = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
    lasting: frozenset[int] = frozenset({HTTPStatus.NOT_IMPLEMENTED})

    def find(self, name: str, status: int) -> Rule | None:
        """Returns the rule for a refusal, or ``None``. A retryable status counts before the name."""
        rule = self.by_name.get(name)
        if rule is not None and rule.may_pass:
            return rule
        is_server_error = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in self.lasting
        return PASSES if is_server_error or status in self.passing else rule
