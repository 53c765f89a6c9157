"""Removes the libraries' jargon from error texts for operators; the log has the whole text."""

import builtins
import re
from typing import Final

from app.errors import cut

_BUILTIN = [name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)]
# Of requests, urllib3 and http.client, which all stores and catalogs use; and of the Kafka client.
_OF_LIBRARIES: Final = (
    "ChunkedEncodingError|ConnectTimeoutError|IncompleteRead|InvalidChunkLength|LocationParseError|MaxRetryError|"
    "NameResolutionError|NewConnectionError|ProtocolError|ProxyError|ReadTimeoutError|ReadTimeout|RemoteDisconnected|"
    "SSLCertVerificationError|SSLEOFError|SSLError|SSLZeroReturnError|KafkaError|KafkaException"
)
_CLASS: Final = rf"(?:{'|'.join([*sorted(_BUILTIN, key=len, reverse=True), _OF_LIBRARIES])})"
_KAFKA_CODES: Final = (
    "ALL_BROKERS_DOWN|AUTHENTICATION|AUTO_OFFSET_RESET|FAIL|FATAL|MAX_POLL_EXCEEDED|MSG_TIMED_OUT|RESOLVE|SSL|STATE|"
    "TIMED_OUT|TIMED_OUT_QUEUE|TRANSPORT|UNKNOWN_PARTITION|UNKNOWN_TOPIC|WAIT_COORD"
)
_LONGEST: Final = 1_000  # characters; a page shows no more
_PACKAGE: Final = r"(?:[a-z_]\w{0,40}\.)"  # bounded, against texts that make matching slow
_INSIDE: Final = r"[^()]*(?:\([^()]*\)[^()]*)*"  # nested brackets

# Each is replaced until nothing changes: some texts have others inside.
_RULES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # <urllib3.connection.HTTPSConnection object at 0x7f2c>: Failed to …
        (r"<[^<>]* at 0x[0-9a-fA-F]+>[:,]? ?", ""),
        # HTTPSConnectionPool(host='s3.example.com', port=443): Max retries exceeded with url: /x (Caused by …)
        (r"HTTPS?Connection(?:Pool)?\(host='([^']*)', port=(\d+)\)", r"\1:\2"),
        (r"Max retries exceeded with url: \S+ \(Caused by (.*)\)", r"\1"),
        # KafkaError{code=_TRANSPORT,val=-195,str="Local: Broker transport failure"}
        (r"(?:cimpl\.)?Kafka(?:Error|Exception)[{(]code=\w+,val=-?\d+,str=\"([^\"]*)\"[)}]", r"\1"),
        (r"code=\"?-?\d+\"? (?=topic=|description=)", ""),
        # %3|1700000000.1|FAIL|rdkafka#consumer-1| [thrd:kafka:9092/1]: kafka:9092/1: Connect to ipv4#10.0.0.1:9092 …
        (r"%\d\|[\d.]+\|\w+\|rdkafka#[\w-]+\| ?", ""),
        (r"\b[A-Z_]+ \[rdkafka#[\w-]+\] ?", ""),
        (r"\[thrd:[^\]]*\]: ?", ""),
        (r"\b(?:sasl_)?(?:plaintext|ssl)://(?=[\w.:\[\]-]+/(?:bootstrap|\d+)\b)", ""),
        (r"(:\d+)/(?:bootstrap|\d+)(?=[: ,])", r"\1"),
        (r"\bipv[46]#", ""),
        (r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)", ""),
        (r"\b(?:rdkafka#[\w-]+|librdkafka\b)", "the Kafka client"),
        (r"\bLocal: ", ""),
        (r"\bBroker transport failure\b", "the connection to the broker failed"),
        (rf"(?<![\w$])_(?:{_KAFKA_CODES})\b:? ?", ""),
        # java.net.ConnectException: Connection refused; botocore.exceptions.EndpointConnectionError: Could not …
        (rf"\b{_PACKAGE}{{1,8}}[A-Z]\w*(?:Error|Exception|Timeout)\b(?!\()(?:: )?", ""),
        # ConnectionRefusedError(111, 'Connection refused'), also inside of others
        (rf"\b{_PACKAGE}{{0,8}}{_CLASS}\((?:[^()'\"]*, ?)?[\"']({_INSIDE})[\"'],?\)", r"\1"),
        (rf"\b{_PACKAGE}{{0,8}}{_CLASS}\(({_INSIDE})\)", r"\1"),
        (rf"\('Connection aborted\.', ?({_INSIDE})\)", r"\1"),
        (rf"\b{_CLASS}: ", ""),
        (r"\[Errno -?\d+\] ", ""),
    )
)


def plain(text: str) -> str:
    """Removes object addresses, names of Python and Java classes, and marks of the Kafka client from the text."""
    text, before = cut(text, _LONGEST), None
    while text != before:
        before = text
        for pattern, replacement in _RULES:
            text = pattern.sub(replacement, text)
    return text.strip(" ")
