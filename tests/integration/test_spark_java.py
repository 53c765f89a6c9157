"""The Java process that belongs to a connector: how it ends, and who may talk to it."""

import multiprocessing
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkContext

from app.errors import ConfigError, SparkLostError
from app.parts.maintenance.spark_merge import merge_session
from app.spark.find_java import find_java
from app.spark.java_process import MODULE_OPTIONS, connect, forget_java, start_java
from dev.class_archive import archive_option
from dev.parsed_classes import make_archive
from tests.services.spark import new_spark_writer, staged_file
from tests.support.small_disk import small_disk
from tests.support.waiting import wait_until


@contextmanager
def python(work: Callable[..., None], *arguments: object) -> Iterator[tuple[BaseProcess, Callable[[], Any]]]:
    """Run a function in a process of its own, for a lost Java process is lost for good; gives what it sends, too."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(*arguments, there))
    process.start()
    there.close()

    def sent() -> Any:
        wait_until(here.poll, "what the process sends")  # also true where it has ended
        return here.recv()

    try:
        yield process, sent
    finally:
        process.kill()
        process.join()


def _lose_java(scratch: Path, how: str, to: Connection) -> None:
    patience = {"job_seconds": 0.5} if how == "frozen" else {}  # ten minutes are a long time
    writer = new_spark_writer(scratch, **patience)
    writer.start().result()
    java = writer.jvm_pid()
    assert java is not None
    staged = staged_file(scratch, pa.table({"n": [1]}))
    os.kill(java, signal.SIGSTOP if how == "frozen" else signal.SIGKILL)
    told = []
    for _ in range(2):
        try:
            writer.write(staged, scratch / "out")
        except SparkLostError as error:
            told.append(str(error))
    to.send((*told, str(writer.lost.result(0)), writer.alive))
    wait_until(lambda: _has_ended(Path(f"/proc/{java}")), "the end of Java")
    writer.close()


@pytest.mark.night
@pytest.mark.parametrize(
    ("how", "cause"), [("killed", "the container has too little memory"), ("frozen", "no answer from Java for 0 s")]
)
def test_a_lost_java_process_is_told_once_and_every_later_write_fails_at_once(
    tmp_path: Path, how: str, cause: str
) -> None:
    with python(_lose_java, tmp_path, how) as (process, sent):
        first, second, lost, alive = sent()
        wait_until(lambda: process.exitcode is not None, "the end of the process")
    assert cause in first
    assert (second, lost, alive) == (first, first, False)
    assert process.exitcode == 0


def _start_with_a_java_that_dies(scratch: Path, by: str, to: Connection) -> None:
    program = scratch / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "25"\' && exit\n{by}\n')
    program.chmod(0o755)
    os.environ["JAVA_HOME"] = str(scratch / "java")
    writer = new_spark_writer(scratch)
    try:
        writer.start().result()
    except (ConfigError, SparkLostError) as error:
        to.send((type(error), str(error)))
    writer.close()


@pytest.mark.parametrize(
    ("by", "kind", "cause"),
    [
        ("kill -KILL $$", SparkLostError, "code -9: killed, possibly because the container has too little memory"),
        pytest.param("exit 1", ConfigError, "Java ended with code 1", marks=pytest.mark.night),
    ],
)
def test_a_java_that_is_killed_at_the_start_may_start_the_next_time(
    tmp_path: Path, by: str, kind: type[Exception], cause: str
) -> None:
    with python(_start_with_a_java_that_dies, tmp_path, by) as (_, sent):
        found, message = sent()
    assert found is kind
    assert cause in message


def _start_without_native_code(scratch: Path, to: Connection) -> None:
    os.environ.pop("SPARK_SUBMIT_OPTS", None)  # may name the code elsewhere, as in the image
    tempfile.tempdir = str(scratch)
    writer = new_spark_writer(scratch)
    try:
        writer.start().result()
    except ConfigError as error:
        to.send(str(error))
    writer.close()


@pytest.mark.night
def test_a_temporary_folder_that_is_mounted_noexec_is_named(tmp_path: Path) -> None:
    with small_disk(tmp_path / "tmp", 256, "noexec") as disk, python(_start_without_native_code, disk) as (_, sent):
        assert f"Java loads native code from {disk}, which is mounted noexec" in sent()


SECRETS = {"S3_SECRET_KEY": "keep-this-1", "AWS_SECRET_ACCESS_KEY": "keep-this-2", "KAFKA_SASL_PASSWORD": "keep-this-3"}


def _show_java(scratch: Path, of: str, to: Connection) -> None:
    os.environ.update(SECRETS)
    os.environ.update(SPARK_REMOTE="sc://127.0.0.1:1", SPARK_API_MODE="connect")  # of another program
    with ExitStack() as ends:
        if of == "the writer":
            new_spark_writer(scratch).start().result()
        else:
            ends.enter_context(merge_session("local[1]", "512m", scratch, {}))
        context: Any = SparkContext
        java = Path(f"/proc/{context._gateway.proc.pid}")
        to.send(
            {
                "pid": java.name,
                "environment": (java / "environ").read_text(),
                "command": (java / "cmdline").read_text(),
                "ours": {name for name in os.environ if "GATEWAY" in name},
                "gateway": context._gateway.gateway_parameters.port,
                "options": list(context._jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray()),
            }
        )
        to.recv()  # never comes


@pytest.fixture(scope="module", params=["the writer", "compact and erase"])
def shown_java(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[tuple[dict[str, Any], BaseProcess]]:
    """What was seen of a Java process, and the Python that it belongs to."""
    with python(_show_java, tmp_path_factory.mktemp("scratch"), request.param) as (process, sent):
        yield sent(), process


def test_java_gets_no_secret(shown_java: tuple[dict[str, Any], BaseProcess]) -> None:
    seen, _ = shown_java

    assert not [secret for secret in SECRETS.values() if secret in seen["environment"] + seen["command"]]
    assert not [name for name in SECRETS if name in seen["environment"]]
    assert "secret" not in seen["command"].lower()
    assert seen["ours"] == set(), "PySpark's secret for the gateway does not stay in our environment"


def test_java_is_opened_as_spark_wants_it(shown_java: tuple[dict[str, Any], BaseProcess]) -> None:
    seen, _ = shown_java
    assert set(seen["options"]) - set(MODULE_OPTIONS) == {"--add-modules=jdk.incubator.vector"}


def test_nobody_without_the_secret_gets_an_answer_at_any_port(shown_java: tuple[dict[str, Any], BaseProcess]) -> None:
    seen, _ = shown_java
    listening = _listening(seen["pid"])

    assert seen["gateway"] in [port for _, port in listening]
    assert {address for address, _ in listening} == {"127.0.0.1"}
    for _, port in listening:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as stranger:
            if port == seen["gateway"]:
                stranger.sendall(b"c\nz:java.lang.System\ngetProperty\nsuser.home\ne\n")
                assert b"Authentication error" in stranger.recv(1000)
            else:
                # The head of a request of Spark's protocol: length of the frame, type, id, length of the body, body.
                stranger.sendall((21 + 4).to_bytes(8) + bytes([3]) + (7).to_bytes(8) + (4).to_bytes(4) + b"ping")
                assert b"Expected SaslMessage" in stranger.recv(1000), "it asks for a login"


def _listening(pid: str) -> list[tuple[str, int]]:
    """Address and port of every socket on which a process takes connections."""
    links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
    found = []
    for version in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{version}").read_text().splitlines()[1:]:
            fields = line.split()
            local, state = fields[1], fields[3]
            if state == "0A" and f"socket:[{fields[9]}]" in links:
                address, port = local.split(":")
                found.append((_readable(address), int(port, 16)))
    return found


def _readable(address: str) -> str:
    words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
    found = ip_address(b"".join(words))
    return str(getattr(found, "ipv4_mapped", None) or found)


def test_java_ends_with_a_python_that_is_killed(shown_java: tuple[dict[str, Any], BaseProcess]) -> None:
    seen, process = shown_java
    java = Path(f"/proc/{seen['pid']}")
    assert java.exists()

    process.kill()

    wait_until(lambda: _has_ended(java), "the end of Java")


def _has_ended(process: Path) -> bool:
    return not process.exists() or "State:\tZ" in (process / "status").read_text()


@pytest.mark.night
def test_java_starts_with_the_archive_that_the_command_makes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    archive = tmp_path / "spark.archive"
    make_archive(archive)
    started = start_java(find_java(), "512m", tmp_path, [archive_option(find_java(), archive)])
    try:
        connect(started)
        assert str(archive) in Path(f"/proc/{started.process.pid}/maps").read_text()
    finally:
        started.process.kill()
        started.process.wait()
        forget_java()
