"""What was measured of groups of replicas, as text and as a picture."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.moves import Many, Move
from bench.picture import Pair, as_svg
from bench.shared_rate import VARIABLES, Rate
from bench.standstill import Standstill
from bench.tables import document, paragraph, table
from bench.timeline import WARM_TO

MILLION = 1_000_000
LEGEND = ("one replica's rate, so many times", "measured")


def as_markdown(results: Mapping[str, Any]) -> str:
    """The parts that were measured so far, as text that can be read as it is."""
    rates = _rates_of(results)
    return document(
        [
            iter(["# Replicas"]),
            _rates(results, rates) if rates else iter([]),
            _moves(results) if _moves_of(results) else iter([]),
            _many(results["many"]) if "many" in results else iter([]),
            _machine(next(iter(results.values()))["machine"]),
        ]
    )


def as_picture(results: Mapping[str, Any]) -> str:
    """The rates beside what they would be if they grew with the replicas; nothing without that of one."""
    rates = _rates_of(results)
    if not rates or rates[0].replicas != 1:
        return ""
    pairs = [Pair(_replicas(rate.replicas), rates[0].rate * rate.replicas, rate.rate, is_ours=True) for rate in rates]
    title = f"Messages per second, {rates[0].share:g} of a core for each replica"
    return as_svg(title, pairs, LEGEND)


def _rates_of(results: Mapping[str, Any]) -> list[Rate]:
    rates = [Rate(**result["found"]) for key, result in results.items() if key.startswith("rate-")]
    return sorted(rates, key=lambda rate: rate.replicas)


def _moves_of(results: Mapping[str, Any]) -> list[Move]:
    found = [
        *results.get("moves", {"found": []})["found"],
        *(results[key]["found"] for key in ("rolling", "added") if key in results),
    ]
    return [Move(**{**move, "standstill": Standstill(**move["standstill"])}) for move in found]


def _rates(results: Mapping[str, Any], rates: Sequence[Rate]) -> Iterator[str]:
    yield "## Rates with equal shares of processor time"
    yield ""
    dates = ", ".join(results[f"rate-{rate.replicas}"]["date"] for rate in rates)
    alone = rates[0]
    told = ", ".join(f"`{name}={value}`" for name, value in VARIABLES.items())
    warm_up = (alone.messages - alone.measured) // alone.replicas
    yield from paragraph(
        f"{dates}. One topic of 64 partitions, 8 folders, messages of 182 bytes, {told}; Kafka and MinIO on the same "
        f"machine, without a limit. All replicas were warm, with {warm_up:,} rows each. Then "
        f"{alone.measured // alone.replicas:,} messages a replica became visible at once. The rate is from when every "
        f"replica had landed a file of them to when {WARM_TO:.0%} had landed. All rows were read back and compared, by "
        "key and sum, with what was produced."
    )
    yield ""
    lines = [
        [
            str(rate.replicas),
            f"{rate.share:g}",
            f"{rate.measured:,}",
            f"{rate.rate:,.0f}",
            f"{rate.rate / (alone.rate / alone.replicas * rate.replicas):.0%}",
            f"{rate.slowest:,.0f} to {rate.fastest:,.0f}",
            f"{rate.seconds:.0f}",
            f"{rate.cpu_per_million:.2f}",
            f"{rate.used:.0%}",
            f"{rate.kafka_cores:.2f}, {rate.minio_cores:.2f}",
            f"{rate.replica_mb:,.0f}",
            f"{rate.files:,}",
            f"{sum(rate.requests.values()) / rate.measured * MILLION:,.0f}",
        ]
        for rate in rates
    ]
    titles = [
        *("replicas", "cores each", "messages", "msg/s", "of linear", "msg/s of one", "seconds", "CPU-s per M rows"),
        *("shares used", "cores of Kafka, MinIO", "MB each", "files", "requests per M rows"),
    ]
    yield from table(titles, lines)
    yield ""
    yield from paragraph("Requests to the store for the measured messages, by MinIO's count:")
    yield ""
    names = sorted({name for rate in rates for name in rate.requests})
    counts = [[str(rate.replicas), *(f"{rate.requests.get(name, 0):,}" for name in names)] for rate in rates]
    yield from table(["replicas", *names], counts)


def _moves(results: Mapping[str, Any]) -> Iterator[str]:
    yield "## Replicas that come and go"
    yield ""
    dates = ", ".join(results[key]["date"] for key in ("moves", "rolling", "added") if key in results)
    yield from paragraph(
        f"{dates}. 10 messages a second to each partition, `COMMIT_INTERVAL=5`. *Unread*: from the last record that "
        "the owner of a partition read, by its counter, to the claim of the next owner, by its log. *Unlanded*: "
        "between two moves of the partition's committed offset, which was asked for five times a second. Both are the "
        "longest stretches in seconds of the partition that stood still longest, and of the median partition. "
        "*Shared*: seconds until all replicas had partitions and were ready. All rows were compared as above."
    )
    yield ""
    lines = [
        [
            move.what,
            move.replicas,
            f"{move.standstill.unread:.1f}, {move.standstill.unread_median:.1f}",
            f"{move.standstill.unlanded:.1f}, {move.standstill.unlanded_median:.1f}",
            f"{move.seconds:.1f}",
        ]
        for move in _moves_of(results)
    ]
    yield from table(["what", "replicas", "unread", "unlanded", "shared"], lines)


def _many(result: Mapping[str, Any]) -> Iterator[str]:
    many = Many(**result["found"])
    yield f"## {many.partitions} partitions on one replica"
    yield ""
    warm = f"{many.warm_rate:,.0f}" if many.warm_rate else "-"
    lines = [
        ["messages that waited", f"{many.messages:,}"],
        ["all partitions claimed after", f"{many.claimed_seconds:.1f} s"],
        ["all rows landed after", f"{many.landed_seconds:.1f} s"],
        ["msg/s warm", warm],
        ["peak memory, Java included", f"{many.peak_mb:,.0f} MB"],
        ["files", f"{many.files:,}"],
    ]
    yield from table([result["date"], ""], lines)


def _machine(facts: Mapping[str, str]) -> Iterator[str]:
    yield "## Machine"
    yield ""
    yield from table(["", ""], [list(fact) for fact in facts.items()])


def _replicas(number: int) -> str:
    return f"{number} replica{'s' if number > 1 else ''}"
