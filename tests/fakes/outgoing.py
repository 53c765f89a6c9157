"""Requests of boto3 as they would go out, for addresses that no test may ask."""

import io
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from urllib3 import HTTPResponse


@dataclass
class Outgoing:
    """Takes the place of the network; to each request the answer is ``200`` with an ETag and no body."""

    requests: list[AWSPreparedRequest] = field(default_factory=list)

    @property
    def hosts(self) -> list[str]:
        return [str(urlsplit(request.url).hostname) for request in self.requests]

    @property
    def headers(self) -> list[dict[str, str]]:
        return [
            {name.lower(): value.decode() if isinstance(value, bytes) else str(value) for name, value in sent}
            for sent in (request.headers.items() for request in self.requests)
        ]

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        self.requests.append(request)
        headers = HTTPHeaders.from_dict({"ETag": '"1"'})
        raw = HTTPResponse(io.BytesIO(b""), headers=dict(headers.items()), status=200, preload_content=False)
        return AWSResponse(request.url, 200, headers, raw)
