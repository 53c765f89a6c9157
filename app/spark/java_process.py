"""Starts the Java process of Spark, connects PySpark to it, and logs its output.

PySpark itself would use ``spark-submit``. That script starts one Java process only to calculate the command line of a
second process. The second process would inherit the connector's complete environment, including the store's secrets.
"""

import logging
import os
import re
import shlex
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from app.errors import ConfigError, SparkLostError
from app.spark.find_java import OLDEST, end_with, find_java, java_environment

logger = logging.getLogger("spark")

JARS = Path(pyspark.__file__).parent / "jars"
START_HINT = (
    f"Spark needs Java {OLDEST} or newer, SPARK_DRIVER_MEMORY of at least 512m, "
    "and a temporary folder that can be written"
)
_SMALL_HEAP = ": out of memory, raise SPARK_DRIVER_MEMORY or lower MAX_BUFFER_MB"
# Exit codes: of a JVM with ExitOnOutOfMemoryError, of Spark's error handler, and of a JVM that was killed.
_WHY_ENDED = {3: _SMALL_HEAP, 52: _SMALL_HEAP, -9: ": killed, possibly because the container has too little memory"}
RESTART_HINT = "The process ends so that its platform restarts it"
EXTRA_OPTIONS = "SPARK_SUBMIT_OPTS"  # more options of Java; Spark's own script reads this variable too

_MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
_ADDRESS_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_HADOOP_USER = "connector"
# If these variables were set, PySpark would connect to a different Spark.
_OTHER_SPARK = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED")
_POLL_SECONDS = 0.02
START_SECONDS = 600.0  # on a machine under load, the start of Java takes minutes
_ENDING_SECONDS = 30.0
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_LEVELS = {"FATAL": logging.CRITICAL, "ERROR": logging.ERROR, "WARN": logging.WARNING}
# Warnings of the virtual machine itself, for example about unused classes of its archive.
_NOTICE = re.compile(r"WARNING: |\[[\d.]+s\]\[warning *\]\[(aot|cds)\b")
_UNCAUGHT = 'Exception in thread "main" '  # after this error, other threads may keep the process alive
_LOGGED = re.compile(rf"({'|'.join(_LEVELS)}) (.*)")  # the format of log4j2.properties

# Spark's options to open Java's packages (org.apache.spark.launcher.JavaModuleOptions), without the vector module. Only
# machine learning uses that module. Some Java builds lack it, and its option would disable parts of an archive.
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in (
            "java.lang",
            "java.lang.invoke",
            "java.lang.reflect",
            "java.io",
            "java.net",
            "java.nio",
            "java.util",
            "java.util.concurrent",
            "java.util.concurrent.atomic",
            "jdk.internal.ref",
            "sun.nio.ch",
            "sun.nio.cs",
            "sun.security.action",
            "sun.util.calendar",
        )
    ),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)

JVM_OPTIONS = (
    # Otherwise the driver hangs after an out-of-memory error.
    "-XX:+ExitOnOutOfMemoryError",
    # With a small heap on one or two cores, the threads of a parallel collector cost more time than they save.
    "-XX:+UseSerialGC",
    # Java keeps memory that it has used once. With a small young generation, most rows are freed early.
    "-Xms64m",
    "-Xmn32m",
    # Raises the threshold of the optimising compiler tenfold. With the default, Spark's start and first rows need 8
    # CPU-seconds more. Without this compiler, a million rows need 2 CPU-seconds more.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
    "-Duser.timezone=UTC",
)

# Saves a third of the start, but makes every row slower. Use this option if the process writes few rows.
ONE_COMPILER = "-XX:TieredStopAtLevel=1"


@dataclass(slots=True)
class JavaProcess:
    """A Java process. Java writes its port to ``address``. ``uncaught`` is the uncaught error of Java's main thread."""

    process: Popen[bytes]
    address: Path
    uncaught: str = ""

    def end(self, seconds: float | None = None) -> int:
        """Closes Java's input so that Java ends. Returns the exit code. By default, waits for the end without limit."""
        assert self.process.stdin is not None  # noqa: S101 - ``start_java`` requests it
        self.process.stdin.close()
        return self.process.wait(seconds)


def start_java(java: Path, heap: str, scratch: Path, options: Sequence[str] = ()) -> JavaProcess:
    """Starts Java. Java ends when its standard input is closed. On Linux, Java also ends when this process ends.

    Java's output is logged. ``heap`` is a size such as ``1g``. ``scratch`` is a private folder for Java's temporary
    files and for the file ``address``.

    Raises:
        ConfigError: Java cannot be run.
    """
    address = scratch / "gateway" / "address"
    shutil.rmtree(address.parent, ignore_errors=True)  # from an earlier process
    address.parent.mkdir(mode=0o700, parents=True)
    command = [
        str(java),
        *("-cp", class_path()),
        f"-Xmx{heap}",
        *MODULE_OPTIONS,
        *JVM_OPTIONS,
        f"-Djava.io.tmpdir={scratch}",
        "-Dspark.authenticate=true",  # clients of Java's ports need a secret, which Spark creates at each start
        f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
        *shlex.split(os.environ.get(EXTRA_OPTIONS, "")),
        *options,
        _MAIN_CLASS,
    ]
    # Without SPARK_LOCAL_IP, Spark would fail if the machine's own name has no address.
    environment = java_environment() | {_ADDRESS_FILE: str(address), "SPARK_LOCAL_IP": "127.0.0.1"}
    started: Future[JavaProcess] = Future()

    def run() -> None:
        try:
            process = Popen(
                command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=STDOUT,
                env=environment,
                preexec_fn=partial(end_with, os.getpid()),  # noqa: PLW1509 - its calls need no lock
            )
        except OSError as error:
            cause = f"{java} cannot be run: {error.strerror}"
            started.set_exception(ConfigError("starting Spark", cause, START_HINT))
            return
        started.set_result(running := JavaProcess(process, address))
        _log(running)
        process.wait()

    threading.Thread(target=run, name="java", daemon=True).start()  # Linux ends Java with the thread that started it
    return started.result()


def connect(java: JavaProcess) -> Any:
    """Waits until Java listens, and returns PySpark's gateway to Java.

    Raises:
        ConfigError, SparkLostError: Java has ended (see ``ended_at_start``), or does not listen in time.
    """
    give_up = time.monotonic() + START_SECONDS
    while not java.address.exists():
        if (code := java.process.poll()) is not None:
            raise ended_at_start(code)
        if java.uncaught or time.monotonic() > give_up:
            java.process.kill()
            kind = ConfigError if java.uncaught else SparkLostError
            cause = java.uncaught or f"Java does not listen after {START_SECONDS:.0f} s"
            raise kind("starting Spark", cause, START_HINT)
        time.sleep(_POLL_SECONDS)
    with java.address.open("rb") as stream:
        port = read_int(stream)  # type: ignore[no-untyped-call]
        secret = UTF8Deserializer().loads(stream)  # type: ignore[no-untyped-call]
    shutil.rmtree(java.address.parent)
    for name in _OTHER_SPARK:
        os.environ.pop(name, None)
    # PySpark reads port and secret only from the environment. No later child process must inherit the secret.
    address = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(address)
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in address:
            del os.environ[name]
    gateway.proc = java.process
    # Otherwise Hadoop would query the system for the user's name. In containers, a UID often has no name, and Hadoop
    # fails. The user does not matter for Hadoop, because all files are in the scratch folder.
    users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
    users.setLoginUser(users.createRemoteUser(_HADOOP_USER))
    return gateway


def death(code: int) -> str:
    return f"the Java process ended with code {code}{_WHY_ENDED.get(code, '')}"


def ended_at_start(code: int) -> ConfigError | SparkLostError:
    """Returns the error of a Java process that ended before Spark started. If Java was killed, a restart helps."""
    if code < 0:
        return SparkLostError("starting Spark", death(code), RESTART_HINT)
    return ConfigError("starting Spark", f"Java ended with code {code}, see its output in the log above", START_HINT)


def class_path() -> str:
    """Returns Spark's jars in the order of Spark's script, without the jar for machine learning.

    Otherwise each session would search that jar for functions, which takes half of the start's time.
    """
    jars = [jar for jar in sorted(JARS.glob("*.jar")) if not jar.name.startswith("spark-mllib_")]
    jars.sort(key=lambda jar: not jar.name.startswith("slf4j-api-"))
    return os.pathsep.join(map(str, jars))


@contextmanager
def only_java(heap: str, scratch: Path, options: Sequence[str] = ()) -> Iterator[JavaProcess]:
    """Runs a Java process for the Spark sessions of this block. No other Java process must be in use.

    ``start_java`` describes the arguments.

    Raises:
        ConfigError: no usable Java was found.
    """
    java = start_java(find_java(), heap, scratch, options)
    try:
        SparkContext._ensure_initialized(gateway=connect(java))
        yield java
    finally:
        try:
            java.end(_ENDING_SECONDS)
        except TimeoutExpired:  # all work is complete
            java.process.kill()
        forget_java()


def forget_java() -> None:
    """Makes PySpark forget a Java process that has ended, so that PySpark can use a new process."""
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _log(java: JavaProcess) -> None:
    assert java.process.stdout is not None  # noqa: S101 - ``start_java`` requests it
    with java.process.stdout as lines:
        for line in lines:
            if text := line.decode(errors="replace").rstrip():
                if text.startswith(_UNCAUGHT):
                    java.uncaught = text
                logged = _LOGGED.fullmatch(text)
                otherwise = logging.DEBUG if _NOTICE.match(text) else logging.INFO
                level, message = (_LEVELS[logged[1]], logged[2]) if logged else (otherwise, text)
                logger.log(level, "%s", message)
