"""Jars from Maven's central repository, with nothing but Java: fetched by the Apache Ivy that comes with PySpark."""

import importlib.util
import subprocess
import tarfile
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.utils import CryptographyDeprecationWarning

from dev.java import find_java
from dev.machine import ServiceError, cache_folder, make_once
from dev.pip_settings import ca_bundle

LOG_TAIL_LINES = 10
_PASSWORD = "changeit"  # Java's own; there is nothing secret in a list of authorities


@dataclass(frozen=True, slots=True)
class Jars:
    """Jars to have in one folder.

    Attributes:
        name: of the folder; change it when the modules change.
        alone: modules as ``organisation:name:version``, without what they depend on.
        with_all_they_need: modules that bring their dependencies with them; and with ``:classifier`` behind the version
            that jar of the module too.
        unpacked: archives as ``organisation:name:version:classifier``, of which the folder gets the content.
        megabytes: what is downloaded, for the person who waits.
    """

    name: str
    alone: Sequence[str] = ()
    with_all_they_need: Sequence[str] = ()
    unpacked: Sequence[str] = ()
    megabytes: int = 0


def maven_jars(jars: Jars) -> Path:
    """Return the folder with the jars; the first call downloads them.

    Raises:
        ServiceError: no Java, or the download failed.
    """
    return make_once(
        cache_folder() / jars.name,
        lambda target: _download(jars, target),
        f"downloading {jars.name} once, {jars.megabytes} MB",
    )


def _download(jars: Jars, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ivy-") as folder:
        modules = Path(folder) / "ivy.xml"
        modules.write_text(_modules(jars))
        command = [
            find_java(),
            *_trust(Path(folder)),
            f"-Divy.default.ivy.user.dir={folder}",  # else it reads and writes below the home folder
            *("-jar", str(_ivy_jar())),
            *("-ivy", str(modules), "-confs", "run", "-cache", f"{folder}/cache"),
            *("-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if told.returncode != 0:
        end = "\n".join(f"    {line}" for line in told.stdout.splitlines()[-LOG_TAIL_LINES:])
        raise ServiceError(
            f"the jars of {jars.name} could not be downloaded. Behind a proxy, name it to Java: "
            f"JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'. Ivy said:\n{end}"
        )
    for archive in target.glob("*.tar.gz"):
        with tarfile.open(archive) as packed:
            packed.extractall(target, filter="data")
        archive.unlink()


def _trust(folder: Path) -> list[str]:
    """Java's options for the authorities that this machine was told to trust: Java's own list has no company's."""
    bundle = ca_bundle()
    if bundle is None:
        return []
    with warnings.catch_warnings():
        # A certificate of the machine's list that breaks a rule is no concern of who runs the demo.
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        found = x509.load_pem_x509_certificates(bundle.read_bytes())
    authorities = [pkcs12.PKCS12Certificate(authority, str(number).encode()) for number, authority in enumerate(found)]
    store = folder / "authorities.p12"
    store.write_bytes(pkcs12.serialize_java_truststore(authorities, BestAvailableEncryption(_PASSWORD.encode())))
    prefix = "-Djavax.net.ssl.trustStore"
    return [f"{prefix}={store}", f"{prefix}Type=PKCS12", f"{prefix}Password={_PASSWORD}"]


def _modules(jars: Jars) -> str:
    lines = [
        *(_dependency(module, "run-&gt;master") for module in jars.alone),
        *(_dependency(module, "run-&gt;master,runtime") for module in jars.with_all_they_need),
        *(_archive(module) for module in jars.unpacked),
    ]
    return "\n".join(
        [
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/extra">',
            f'<info organisation="dev" module="{jars.name}"/>',
            '<configurations><conf name="run"/></configurations>',
            "<dependencies>",
            *lines,
            "</dependencies>",
            "</ivy-module>",
        ]
    )


def _dependency(module: str, configuration: str) -> str:
    classifiers = module.split(":")[3:]
    return _element(module, configuration, "jar", ["", *classifiers] if classifiers else [])


def _archive(module: str) -> str:
    return _element(module, "run-&gt;master", "tar.gz", module.split(":")[3:])


def _element(module: str, configuration: str, kind: str, classifiers: Sequence[str]) -> str:
    organisation, name, revision = module.split(":")[:3]
    artifacts = (f'<artifact name="{name}" type="{kind}" ext="{kind}" m:classifier="{each}"/>' for each in classifiers)
    attributes = f'org="{organisation}" name="{name}" rev="{revision}" conf="{configuration}"'
    return f"<dependency {attributes}>{''.join(artifacts)}</dependency>"


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise ServiceError("no Apache Ivy beside PySpark: run this with the Python of the environment of `make venv`")
    return found[-1]
