"""A case through both sinks."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from app.pipeline.pipeline import Writer
from tests.fakes.catalog_server import CatalogServer
from tests.parity.case import BUCKET, Case
from tests.parity.comparing import Finding, compare
from tests.parity.differences import explanation
from tests.parity.ours import Ours
from tests.parity.theirs import Theirs

TRIED: Counter[str] = Counter()  # cases and records of this run, told at its end


def findings_of(case: Case, writer: Writer) -> list[Finding]:
    """Write the case by each sink into a lake and a catalog of its own, and compare."""
    TRIED.update(cases=1, records=sum(map(len, case.numbered)))
    with TemporaryDirectory() as folder, CatalogServer() as their_catalog, CatalogServer() as our_catalog:
        lakes = Path(folder)
        (lakes / "theirs").mkdir()
        (lakes / "ours").mkdir()
        theirs = Theirs(case, lakes / "theirs" / BUCKET, their_catalog)
        ours = Ours(case, lakes / "ours" / BUCKET, lakes / "scratch", our_catalog, writer)
        try:
            return compare(
                case,
                [theirs.write(batch) for batch in case.numbered],
                [ours.write(batch) for batch in case.numbered],
            )
        finally:
            theirs.close()
            ours.close()


def titles(findings: Iterable[Finding]) -> set[str]:
    """The differences that explain the findings.

    Raises:
        AssertionError: with all findings that none of them explains.
    """
    explained = {str(finding): explanation(finding) for finding in findings}
    unexplained = [finding for finding, title in explained.items() if title is None]
    assert not unexplained, "\n".join(["the sinks differ where they should not:", *unexplained])
    return {title for title in explained.values() if title}
