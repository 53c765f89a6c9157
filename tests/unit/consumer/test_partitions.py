"""Generations of partitions: their tokens, and the fences that are counted."""

import re

from app.consumer.partitions import Partitions, new_token

from app.journal.journal import FencedError
from app.monitoring.metrics import Metrics
from tests.support.batches import TP


def test_each_generation_has_a_token_of_its_own() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch("[0-9a-f]{24}", token) for token in tokens)


def test_fences_are_counted() -> None:
    metrics = Metrics()
    partitions = Partitions(metrics)
    partitions.fence(partitions.begin([TP]), FencedError("another member has claimed it"))
    assert metrics.counts().totals.fenced == 1
