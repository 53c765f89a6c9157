"""Translates errors of boto3 into the connector's own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from app.container import with_own_address
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError, one_line
from app.storage.error_rules import PASSES, ErrorRules, Rule

ADDRESS_HINT = "Check AWS_ENDPOINT_URL and AWS_REGION"
PROXY_HINT = "Check AWS_ENDPOINT_URL, and any proxy on the way"
_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"

_WRONG_REGION = frozenset(
    {
        "PermanentRedirect",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "InvalidLocationConstraint",
        "InvalidRegionName",
    }
)

_REDIRECTS = range(HTTPStatus.MULTIPLE_CHOICES, HTTPStatus.BAD_REQUEST)

_SESSION_HINT = "Check AWS_SESSION_TOKEN: it must be the one issued with AWS_ACCESS_KEY_ID"
_QUOTA_HINT = "Raise the quota or delete what is no longer needed, then restart"
_ROLE_HINT = "The keys of a role renew themselves; check the role if this goes on"

_RULES = ErrorRules(
    {
        # The store is busy, restarting, or got a damaged request: the same request may pass a moment later.
        "SlowDown": PASSES,
        "Throttling": PASSES,
        "ThrottlingException": PASSES,
        "RequestThrottled": PASSES,
        "RequestLimitExceeded": PASSES,
        "TooManyRequests": PASSES,
        "RequestTimeout": PASSES,
        "InternalError": PASSES,
        "ServiceUnavailable": PASSES,
        "OperationAborted": PASSES,
        "ConditionalRequestConflict": PASSES,  # somebody else writes the same object at this moment
        "TemporaryRedirect": PASSES,  # a bucket made a moment ago, before DNS knows its region
        "BadDigest": PASSES,
        "IncompleteBody": PASSES,
        "XAmzContentSHA256Mismatch": PASSES,
        "NoSuchUpload": PASSES,  # an upload in parts that was completed, its answer lost; or one that was cleaned up
        "ExpiredToken": Rule(RetryableError, _ROLE_HINT),
        "ExpiredTokenException": Rule(RetryableError, _ROLE_HINT),
        # Also what a request gets that was signed before the machine slept: signed again, it passes.
        "RequestTimeTooSkewed": Rule(
            RetryableError, "Set this machine's clock (NTP): it is more than 15 minutes off the store's"
        ),
        "XMinioStorageFull": Rule(RetryableError, "Free some space on the storage server"),
        "InvalidBucketName": Rule(ConfigError, "Set S3_BUCKET to 3 to 63 lower-case letters, digits, dots and hyphens"),
        "BucketAlreadyExists": Rule(ConfigError, "The name is taken by another account; choose another S3_BUCKET"),
        "NoSuchKey": Rule(FatalError, "It was deleted meanwhile; restart"),
        "NoSuchBucket": Rule(FatalError, "Check S3_BUCKET; if the bucket was deleted, create it again and restart"),
        "InvalidAccessKeyId": Rule(FatalError, "Check AWS_ACCESS_KEY_ID, and AWS_ENDPOINT_URL for whose key it is"),
        "SignatureDoesNotMatch": Rule(FatalError, "Check AWS_SECRET_ACCESS_KEY"),
        "InvalidToken": Rule(FatalError, _SESSION_HINT),
        "InvalidTokenId": Rule(FatalError, _SESSION_HINT),
        "AllAccessDisabled": Rule(FatalError, "The account or bucket is disabled; ask its owner"),
        "QuotaExceeded": Rule(FatalError, _QUOTA_HINT),
        "XMinioAdminBucketQuotaExceeded": Rule(FatalError, _QUOTA_HINT),
    }
)

_OF_THE_BUCKET = {"ListObjectsV2": "s3:ListBucket", "CreateBucket": "s3:CreateBucket"}
_OF_OBJECTS = {
    "GetObject": "s3:GetObject",
    "PutObject": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "DeleteObject": "s3:DeleteObject",
}
# Beside the right to the object, where it is encrypted with a key of AWS's key service.
_OF_THE_KEY = {"s3:GetObject": "kms:Decrypt", "s3:PutObject": "kms:GenerateDataKey"}
_PARTITIONS = {"cn": "aws-cn", "us-gov": "aws-us-gov"}  # of AWS, by how the regions in them begin
_NAMED_ACTION = re.compile(r"not authorized to perform: ([\w-]+:\w+)(?: on resource: \"?(arn:aws[\w-]*:kms:[^\"\s]+))?")

# boto3 puts the HTTP status in the place of the code where the answer has no error document of S3.
_NOT_S3 = "The answer has no error document of S3: check AWS_ENDPOINT_URL, and any proxy on the way"


@dataclass(frozen=True, slots=True)
class Question:
    """A request to a store, as messages describe it.

    Attributes:
        doing: what is being done, to which object.
        bucket: the bucket's name.
        keys: what the right would have to be for, ``data/t/*``.
        region: of the bucket.
        fixed_token: whether the session token came from the settings, so that nobody renews it.
        key_service: whether objects are encrypted with a key of AWS's key service.
    """

    doing: str
    bucket: str
    keys: str
    region: str
    fixed_token: bool
    key_service: bool

    def missing_right(self, operation: str, message: str) -> str:
        """The missing right and its resource: as the answer names it, else the one that the operation needs."""
        named = _NAMED_ACTION.search(message)
        action = named[1] if named else _OF_OBJECTS.get(operation) or _OF_THE_BUCKET.get(operation, operation)
        if named and named[2]:
            return f"{action} on {named[2]}"
        if action.startswith("kms:"):
            return f"{action} on the KMS key"
        on_objects = action in _OF_OBJECTS.values()
        right = f"{action} on {self._arn}{f'/{self.keys}' if on_objects else ''}"
        if not named and self.key_service and action in _OF_THE_KEY:
            return f"{right} and {_OF_THE_KEY[action]} on the KMS key"
        return right

    @property
    def _arn(self) -> str:
        partition = next((name for start, name in _PARTITIONS.items() if self.region.startswith(f"{start}-")), "aws")
        return f"arn:{partition}:s3:::{self.bucket}"


@contextmanager
def translated(asked: Question) -> Iterator[None]:
    """Raise what boto3 raises inside as a ``ConnectorError``."""
    try:
        yield
    except (boto.ClientError, boto.BotoCoreError) as error:
        raise translate(error, asked) from error
    except ResponseParserError as error:
        raise RetryableError(asked.doing, "the answer cannot be read", PROXY_HINT) from error


def translate(error: Exception, asked: Question) -> ConnectorError:
    """The error, a ``ClientError`` or ``BotoCoreError``, as the user is to see it, retryable or not."""
    doing = asked.doing
    if isinstance(error, boto.ClientError):
        return _from_answer(error, asked)
    if isinstance(error, boto.SSLError):
        return _from_tls(error, doing)
    if isinstance(error, boto.ConnectionError | boto.HTTPClientError):
        hint = "Check that AWS_ENDPOINT_URL and the network let us reach the store"
        return RetryableError(doing, _reason(error), with_own_address(hint, str(error)))
    if isinstance(error, boto.IncompleteReadError | boto.FlexibleChecksumError):
        return RetryableError(doing, f"the answer arrived damaged: {one_line(str(error))}")
    return _from_settings(error, doing)


def error_code(error: boto.ClientError) -> str:
    """The store's name for the error, ``NoSuchKey``; empty where the answer has none."""
    return error.response.get("Error", {}).get("Code", "")


def status_of(error: boto.ClientError) -> int:
    """The HTTP status of the answer."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def _from_settings(error: Exception, doing: str) -> ConnectorError:
    """Errors from before a request is sent: keys, names, the configuration files."""
    cause = one_line(str(error))
    if isinstance(error, boto.NoCredentialsError):
        return ConfigError(doing, "no credentials found", f"Set {_KEYS}, or give the machine a role")
    if isinstance(error, boto.PartialCredentialsError):
        return ConfigError(doing, cause, f"Set both {_KEYS}, or neither to use the machine's role")
    if isinstance(error, boto.CredentialRetrievalError | boto.MetadataRetrievalError):
        return RetryableError(doing, cause, f"Check the role given to this machine, or set {_KEYS}")
    if isinstance(error, boto.ParamValidationError):
        return ConfigError(doing, cause, "Check S3_BUCKET")
    if isinstance(error, boto.InvalidRegionError):
        return ConfigError(doing, cause, ADDRESS_HINT)
    return FatalError(doing, cause, "Check the AWS_ variables and the AWS configuration files")


def _from_tls(error: boto.SSLError, doing: str) -> ConnectorError:
    if "EOF" in str(error):  # cut off during the handshake: a restart of the store or its load balancer
        return RetryableError(doing, one_line(str(error)))
    hint = "Check http:// or https:// in AWS_ENDPOINT_URL; for a private authority set AWS_CA_BUNDLE to its file"
    return FatalError(doing, one_line(str(error)), hint)


def _from_answer(error: boto.ClientError, asked: Question) -> ConnectorError:
    """Errors that the store itself reported."""
    doing = asked.doing
    answer = error.response
    code = error_code(error)
    message = one_line(answer.get("Error", {}).get("Message", ""))
    meta = answer.get("ResponseMetadata", {})
    status = status_of(error)
    headers = meta.get("HTTPHeaders", {})
    cause = f"{message} ({code})" if message else f"HTTP {status}"
    if code == "ExpiredToken" and asked.fixed_token:
        return FatalError(doing, cause, "Set AWS_SESSION_TOKEN and the keys issued with it again, then restart")
    rule = _RULES.find(code, status)
    if (code in _WRONG_REGION or status in _REDIRECTS) and not (rule and rule.may_pass):
        region = headers.get("x-amz-bucket-region") or str(answer.get("Error", {}).get("Region", ""))
        return ConfigError(doing, cause, _elsewhere(region, headers.get("location", "")))
    if rule is not None:
        return rule.apply(doing, cause, headers, _NOT_S3 if code.isdigit() else "")
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        missing = asked.missing_right(error.operation_name, message)
        return FatalError(doing, cause, f"Allow {missing} for these keys or this role, or check {_KEYS}")
    return FatalError(doing, cause, _NOT_S3 if code.isdigit() else f"Look up {code} in the documentation of the store")


def _elsewhere(region: str, location: str) -> str:
    """The hint for a bucket in another region or at another address; either may be empty."""
    if region:
        return f"The bucket lies in {region}: set AWS_REGION to that"
    if location:
        return f"The store points to {location}: set AWS_ENDPOINT_URL to the address that answers itself"
    return "Set AWS_REGION to the region of the bucket"


def _reason(error: boto.ConnectionError | boto.HTTPClientError) -> str:
    """The network's message. botocore's own leaves out whether a connection was refused or a name unknown."""
    if type(error) is boto.HTTPClientError:  # wraps anything, a header's value with a token in it included
        return f"the request could not be sent ({type(error.kwargs.get('error')).__name__})"
    if isinstance(error, boto.EndpointConnectionError):
        return f"{one_line(str(error))}: {str(error.kwargs.get('error')).rpartition(': ')[2]}"
    return one_line(str(error))
