"""``/health/live`` and ``/health/ready`` over HTTP, for the platform's probes."""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from app.errors import ConfigError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Probe:
    """An answer to a probe: whether all is well, and if not, what is not."""

    ok: bool
    detail: str


class Health:
    """What the probes are told.

    Args:
        loop_seconds: the longest a turn of the consumer's loop may take, a flush included.
        clock: monotonic seconds.
    """

    def __init__(self, *, loop_seconds: float, clock: Callable[[], float]) -> None:
        self._loop_seconds = loop_seconds
        self._clock = clock
        self._last_turn: float | None = None
        self._spark_alive: Callable[[], bool] = lambda: True
        self._ready: Callable[[], Probe] = lambda: Probe(ok=False, detail="starting")

    def started(self, *, spark_alive: Callable[[], bool], ready: Callable[[], Probe]) -> None:
        """From now on the loop turns, Spark lives, and readiness can be told."""
        self._spark_alive = spark_alive
        self._ready = ready
        self._last_turn = self._clock()

    def turn(self) -> None:
        """The consumer's loop has turned once more."""
        self._last_turn = self._clock()

    def live(self) -> Probe:
        """Well while the process starts; later as long as the loop turns and the JVM lives."""
        if self._last_turn is None:
            return Probe(ok=True, detail="starting")
        still = self._clock() - self._last_turn
        if still > self._loop_seconds:
            return Probe(ok=False, detail=f"the consumer's loop has not turned for {still:.0f} s")
        if not self._spark_alive():
            return Probe(ok=False, detail="Spark's Java process is gone")
        return Probe(ok=True, detail="running")

    def ready(self) -> Probe:
        """Well when partitions are assigned and the last flush went through."""
        return self._ready()


class HealthServer:
    """Serves the probes on all interfaces, on threads of its own.

    Args:
        health: where the answers come from.
        port: TCP port.

    Raises:
        ConfigError: the port is taken or not allowed.
    """

    def __init__(self, health: Health, port: int) -> None:
        probes = {"/health/live": health.live, "/health/ready": health.ready}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                probe = probes.get(self.path)
                if probe is None:
                    return self._answer(404, Probe(ok=False, detail=f"there are {', '.join(probes)}"))
                result = probe()
                return self._answer(200 if result.ok else 503, result)

            def _answer(self, status: int, probe: Probe) -> None:
                body = json.dumps({"ok": probe.ok, "detail": probe.detail}).encode() + b"\n"
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
                logger.debug(format, *args)

        try:
            self._server = ThreadingHTTPServer(("", port), Handler)
        except OSError as error:
            raise ConfigError(
                f"opening HTTP_PORT={port}", error.strerror or str(error), "Choose another port, or 0 for none"
            ) from None
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
