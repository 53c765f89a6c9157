"""The image at work: one container, started hardened, looked at from inside and outside."""

import json
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from dev.container_engine import Engine
from dev.image import IN_MEMORY, run_command
from tests.support import waiting

STOP_SECONDS = int(waiting.PATIENCE)  # what the connector gets between SIGTERM and SIGKILL


@dataclass(frozen=True, slots=True)
class Image:
    """A built image and the engine that runs it."""

    engine: Engine
    tag: str

    def health_check(self) -> list[str]:
        """The command that the engine would run to learn about the container's health."""
        healthcheck = self.engine.call("image", "inspect", "--format", "{{json .Config.Healthcheck}}", self.tag)
        kind, *command = json.loads(healthcheck)["Test"]
        assert kind == "CMD", "a shell would be needed"
        return [str(part) for part in command]

    def run(self, command: list[str], *options: str) -> subprocess.CompletedProcess[str]:
        """Run another command than the connector in a new container without a network, to its end."""
        program, *arguments = command
        line = run_command(self.engine, self.tag, "--rm", f"--entrypoint={program}", *options, network="none")
        return subprocess.run(
            [*line, *arguments], env=self.engine.environment(), capture_output=True, text=True, check=False
        )


class Container:
    """The connector in a container, which is gone after the block; of its variables only ``settings`` are set."""

    def __init__(self, image: Image, settings: Mapping[str, str], *options: str, scratch: str = IN_MEMORY) -> None:
        self._engine = image.engine
        self._name = f"sink-{uuid.uuid4().hex[:12]}"
        variables = [f"--env={name}={value}" for name, value in settings.items()]
        options = ("--detach", f"--name={self._name}", *variables, *options)
        self._command = run_command(image.engine, image.tag, *options, scratch=scratch)

    def wait_until(self, reached: Callable[[], bool], what: str) -> None:
        """Return once ``reached()``; fail with the log when the connector ends before, or nothing happens."""

        def looked() -> bool:
            is_there = reached()
            has_ended = not is_there and self._state("Running") != "true"
            assert not has_ended, f"ended with {self._state('ExitCode')}, not {what}:\n{self.log()}"
            return is_there

        waiting.wait_until(looked, what, pause=0.5, details=self.log)

    def stop(self) -> int:
        """Stop it as platforms do, by SIGTERM and then by force; the exit code."""
        self._engine.call("stop", "-t", str(STOP_SECONDS), self._name)
        return int(self._state("ExitCode"))

    def run_inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self._engine.try_call("exec", self._name, *command)

    def log(self) -> str:
        told = self._engine.try_call("logs", self._name)
        return told.stdout + told.stderr

    def _state(self, field: str) -> str:
        return self._engine.call("inspect", "--format", f"{{{{.State.{field}}}}}", self._name)

    def __enter__(self) -> Self:
        told = subprocess.run(
            self._command, env=self._engine.environment(), capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stderr
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.call("rm", "--force", "--volumes", self._name)


def answers_ok(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False
