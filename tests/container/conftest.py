"""The image under test, built once a session, or the one that ``IMAGE_UNDER_TEST`` names."""

import os

import pytest

from dev.container_engine import find_engine
from dev.machine import ServiceError
from dev.sample import export
from tests.container.running import Image
from tests.support.unavailable import cannot_run

TAG = "quix-ts-datalake-sink-under-test"


@pytest.fixture(scope="session")
def image(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image of the sample, which is that of the checkout: a build of the checkout would not miss what it lacks.

    Without an engine its tests are skipped for a person, and fail in CI.
    """
    try:
        engine = find_engine()
    except ServiceError as error:
        cannot_run(str(error))
    if tag := os.environ.get("IMAGE_UNDER_TEST"):
        return Image(engine, tag)
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # it takes minutes; the terminal shows how far it is
        engine.build(export(tmp_path_factory.mktemp("samples")), TAG)
    return Image(engine, TAG)
