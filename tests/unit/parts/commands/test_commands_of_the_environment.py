"""``COMMAND`` names a command where a deployment has no arguments; some commands need no system."""

import json

import pytest

from dev.connector import environment
from tests.services.main_process import run_main
from tests.support.environment import ENOUGH


def test_a_command_is_read_from_the_environment() -> None:
    done = run_main(environment=environment({"COMMAND": "config-schema"}))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["properties"]["input"]["default"] == "sensor-data"


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("compact --when-cold soon", "'soon' is not a duration, such as 400d"),
        ("compact --folder 'year", "No closing quotation"),
    ],
)
def test_a_command_that_is_none_is_refused(command: str, complaint: str) -> None:
    done = run_main(environment=environment({"COMMAND": command, **ENOUGH}))
    assert done.returncode == 2
    assert complaint in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_arguments_win_and_settings_are_checked_without_any_system() -> None:
    without = ("--without", "broker", "registry", "catalog", "store", "spark")
    done = run_main("check", *without, environment=environment({"COMMAND": "compact", **ENOUGH, "HTTP_PORT": "0"}))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[:2] == ["ok", "transform"]
