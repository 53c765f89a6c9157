"""What Azure Blob Storage says, for a canned server to say it."""

from collections.abc import Mapping

from app.parts.azure.store import AzureStore
from app.storage.base import TIMEOUTS
from app.storage.targets import AzureTarget
from tests.fakes.canned_server import Answer

SERVED = {"x-ms-request-id": "1", "x-ms-version": "2026-01-01"}
MODIFIED = {"Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT"}
KEY = "c2VjcmV0LWtleS10aGF0LXN0YXlz"  # base64, as every key is


def written(etag: str) -> Answer:
    return Answer(201, headers={**SERVED, **MODIFIED, "ETag": etag})


def holds(body: bytes, etag: str) -> Answer:
    span = {"Content-Range": f"bytes 0-{len(body) - 1}/{len(body)}", "x-ms-blob-type": "BlockBlob"}
    return Answer(206, body, {**SERVED, **MODIFIED, **span, "ETag": etag})


def listing(*names: str, after: str = "", folders: tuple[str, ...] = ()) -> Answer:
    """A page of objects of 8 bytes; ``after`` is where the next one begins."""
    blobs = "".join(
        f"<Blob><Name>{name}</Name><Properties><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified>"
        f"<Etag>0x1</Etag><Content-Length>8</Content-Length><BlobType>BlockBlob</BlobType></Properties>"
        f"{'<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>' if name in folders else ''}</Blob>"
        for name in names
    )
    body = (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://acme/" ContainerName="lake">'
        f"<Blobs>{blobs}</Blobs><NextMarker>{after}</NextMarker></EnumerationResults>"
    )
    return Answer(200, body.encode(), {**SERVED, "Content-Type": "application/xml"})


def refusal(
    status: int, code: str, message: str = "Said so.", detail: str = "", headers: Mapping[str, str] | None = None
) -> Answer:
    """An error as the service words it, with the ids of a request and, where there is one, a detail."""
    told = f"<AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail>" if detail else ""
    body = (
        f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{message}\n'
        f"RequestId:6f7e\nTime:2026-01-02T03:04:05.0000000Z</Message>{told}</Error>"
    )
    known = {**SERVED, "x-ms-error-code": code, "Content-Type": "application/xml"}
    return Answer(status, body.encode(), {**known, **(headers or {})})


def azure_store(
    url: str, *, key: str | None = KEY, sas_token: str | None = None, timeouts: tuple[float, float] = TIMEOUTS
) -> AzureStore:
    used = {"sas_token": sas_token} if sas_token else {"key": key}
    target = AzureTarget("lake", account="acme", endpoint_url=f"{url}/acme", **used)
    return AzureStore(target, max_workers=2, timeouts=timeouts)
