"""What the pages and files for deploying say, held to the code: names, paths, times, users.

tests/integration/test_chart.py holds the manifest to the Helm chart.
"""

import ast
import os
import re
import shlex
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from dotenv import dotenv_values

from app import __version__
from app.config.environment import load_settings
from app.config.settings import VARIABLES
from app.monitoring.http_server import AllowedHosts
from app.parts.commands.command_line import new_parser
from app.service.process import LONGEST_STOP_SECONDS
from dev.chart import CHART, RELEASE, SCHEMA, values_schema
from dev.dashboard import DASHBOARD, dashboard
from dev.image import DEFAULT_TAG

REPO = Path(__file__).parents[2]
DEPLOY = REPO / "docs" / "deploy"
MANIFEST: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
COMPOSE: dict[str, Any] = yaml.safe_load((REPO / "docker-compose.yml").read_text())
README = (REPO / "README.md").read_text()
DOCKERFILE = (REPO / "Dockerfile").read_text()


def of_kind(kind: str) -> dict[str, Any]:
    [found] = [part for part in MANIFEST if part["kind"] == kind]
    return found


POD = of_kind("Deployment")["spec"]["template"]
[CONTAINER] = POD["spec"]["containers"]
MAINTENANCE = (REPO / "docs" / "maintenance.md").read_text()


def seconds(text: str) -> int:
    assert text.endswith("s")
    return int(text.removesuffix("s"))


# --- Kubernetes -----------------------------------------------------------------------------------------------------


def test_every_variable_of_the_manifest_and_of_the_compose_file_exists() -> None:
    given = {
        *of_kind("ConfigMap")["data"],
        *of_kind("Secret")["stringData"],
        *(one["name"] for one in CONTAINER["env"]),
        *COMPOSE["services"]["sink"]["environment"],
    }
    assert given <= VARIABLES.keys()


def test_the_settings_of_the_manifest_are_valid() -> None:
    settings = of_kind("ConfigMap")["data"] | of_kind("Secret")["stringData"]
    assert all(isinstance(value, str) for value in settings.values()), "Kubernetes refuses numbers there"
    with patch.dict(os.environ, settings | {"STORAGE_URL": settings["STORAGE_URL"].lower()}, clear=True):
        assert load_settings().storage.uri == "s3://my-lake"


def test_secrets_are_in_the_secret_alone() -> None:
    secret = {variable for variable, field in VARIABLES.items() if not field.repr}
    assert set(of_kind("Secret")["stringData"]) <= secret
    assert not secret & set(of_kind("ConfigMap")["data"])


def test_the_grace_is_longer_than_the_longest_stop() -> None:
    assert POD["spec"]["terminationGracePeriodSeconds"] > LONGEST_STOP_SECONDS + 3
    assert seconds(COMPOSE["services"]["sink"]["stop_grace_period"]) > LONGEST_STOP_SECONDS + 3


def test_ports_are_published_for_this_machine_alone() -> None:
    """The status page and the servers of the example ask nobody who they are."""
    pages = [README, *(page.read_text() for page in (REPO / "docs").rglob("*.md"))]
    published = [port for page in pages for port in re.findall(r"(?:-p|--publish)[ =](\S*:\d+)", page)]
    published += [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert len(published) >= 3
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_the_image_is_the_one_that_is_built_and_published() -> None:
    page = (DEPLOY / "kubernetes.md").read_text()
    assert set(re.findall(r"docker build -t (\S+) \.", README + page)) == {DEFAULT_TAG}
    assert CONTAINER["image"] == f"ghcr.io/OWNER/{DEFAULT_TAG}:{__version__}"
    assert f"oci://ghcr.io/OWNER/charts/{RELEASE} " in page, "an image and a chart of one name need two places"


def test_the_user_is_the_one_of_the_image() -> None:
    [uid] = re.findall(r"^USER (\d+)$", DOCKERFILE, re.MULTILINE)
    assert f"useradd --uid {uid} --gid 0" in DOCKERFILE
    context = POD["spec"]["securityContext"]
    assert context["runAsNonRoot"]
    assert (context["runAsUser"], context["runAsGroup"]) == (int(uid), 0)


def test_the_container_has_the_least_rights() -> None:
    context = CONTAINER["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert not context["allowPrivilegeEscalation"]
    assert not POD["spec"]["automountServiceAccountToken"]
    [mount] = CONTAINER["volumeMounts"]
    [volume] = POD["spec"]["volumes"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/tmp")  # noqa: S108 - of the container
    assert "emptyDir" in volume


def test_the_probes_ask_the_port_that_is_served() -> None:
    [port] = CONTAINER["ports"]
    served = VARIABLES["HTTP_PORT"].default
    assert served == port["containerPort"] == int(POD["metadata"]["annotations"]["prometheus.io/port"])
    assert not POD["spec"]["enableServiceLinks"], "a service named http would set HTTP_PORT"
    for probe in ("livenessProbe", "readinessProbe"):
        assert CONTAINER[probe]["httpGet"]["port"] == port["name"]


def test_memory_is_told_to_the_connector_and_is_enough() -> None:
    [told] = [one["valueFrom"] for one in CONTAINER["env"] if one["name"] == "Quix__Deployment__Limits__Memory"]
    assert told == {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}
    assert CONTAINER["resources"]["limits"]["memory"] == CONTAINER["resources"]["requests"]["memory"] == "2Gi"
    with patch.dict(os.environ, _loaded("Amazon S3") | {"Quix__Deployment__Limits__Memory": "2048"}, clear=True):
        memory = load_settings().memory
    assert (memory.heap_mb, memory.buffer_mb, memory.sort_mb) == (512, 64, 145)


def test_the_parts_of_the_manifest_belong_together() -> None:
    labels = of_kind("Deployment")["spec"]["selector"]["matchLabels"]
    assert of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert labels.items() <= POD["metadata"]["labels"].items()


def test_what_the_pod_names_is_in_the_manifest() -> None:
    assert POD["spec"]["serviceAccountName"] == of_kind("ServiceAccount")["metadata"]["name"]
    sources = {kind: source["name"] for each in CONTAINER["envFrom"] for kind, source in each.items()}
    assert sources == {
        f"{kind[0].lower()}{kind[1:]}Ref": of_kind(kind)["metadata"]["name"] for kind in ("ConfigMap", "Secret")
    }


# --- made from the code ---------------------------------------------------------------------------------------------


def test_the_schema_of_the_chart_has_the_settings_of_the_code() -> None:
    assert SCHEMA.read_text() == values_schema(), "`make generated` writes it"


def test_the_dashboard_is_the_one_of_the_code() -> None:
    assert DASHBOARD.read_text() == dashboard(), "`make generated` writes it"


def test_the_chart_has_the_version_of_the_connector() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


# --- Prometheus -----------------------------------------------------------------------------------------------------


def test_one_command_gives_each_alert_a_link_to_its_section_at_another_address() -> None:
    alerts = REPO / "deploy" / "alerts.yml"
    [command] = re.findall(r"^#   (sed .*)$", alerts.read_text(), re.MULTILINE)
    linked = subprocess.run(shlex.split(command), cwd=alerts.parent, capture_output=True, text=True, check=True).stdout
    rules = [rule for group in yaml.safe_load(linked)["groups"] for rule in group["rules"] if "alert" in rule]
    links = {rule["alert"]: rule["annotations"].get("runbook_url") for rule in rules}
    assert links == {alert: f"https://ADDRESS/docs/monitoring.md#{alert.lower()}" for alert in links}
    assert len(links) > 10


# --- Airflow --------------------------------------------------------------------------------------------------------


def test_the_settings_of_the_task_are_valid_and_its_folder_is_one_of_the_table() -> None:
    [block] = re.findall(r"```python\n(.*?)```", MAINTENANCE, re.DOTALL)
    [call] = [node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call)]
    given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    options = new_parser().parse_args(shlex.split(given["command"].replace("{{ ds[:4] }}", "2024")))
    with patch.dict(os.environ, given["environment"], clear=True):
        settings = load_settings(needs_broker=options.needs_broker)
    assert [glob.partition("=")[0] for glob in options.folder] == [settings.spec.columns[0]]


# --- Compose --------------------------------------------------------------------------------------------------------


def test_the_compose_file_publishes_the_status_page() -> None:
    served = VARIABLES["HTTP_PORT"].default
    assert COMPOSE["services"]["sink"]["ports"] == [f"127.0.0.1:${{SINK_PORTS:-{served}}}:{served}"]


def test_of_the_names_of_a_published_port_the_page_answers_localhost_alone() -> None:
    """A page in a browser could resolve its own name to 127.0.0.1. Prometheus asks for each replica by its address."""
    allowed = AllowedHosts(COMPOSE["services"]["sink"]["environment"]["HTTP_ALLOWED_HOSTS"].split(","))
    hosts = ("localhost:8082", "172.18.0.5:8080", "sink.evil.example:8080")
    assert [allowed.allow(host, "172.18.0.5") for host in hosts] == [True, True, False]
    [job] = yaml.safe_load((REPO / "deploy" / "prometheus.yml").read_text())["scrape_configs"]
    assert [(each["names"], each["type"]) for each in job["dns_sd_configs"]] == [(["sink"], "A")]


def test_the_topic_and_the_store_of_the_compose_file_are_its_own() -> None:
    services = COMPOSE["services"]
    settings = services["sink"]["environment"]
    assert f"--topic {settings['input']} " in services["topic"]["command"]
    assert (settings["AWS_ACCESS_KEY_ID"], settings["AWS_SECRET_ACCESS_KEY"]) == (
        services["s3"]["environment"]["ROOT_ACCESS_KEY"],
        services["s3"]["environment"]["ROOT_SECRET_KEY"],
    )
    assert settings["KAFKA_BOOTSTRAP_SERVERS"] in services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_images_of_the_compose_file_are_pinned_and_what_it_mounts_exists() -> None:
    services = COMPOSE["services"].values()
    images = [service["image"] for service in services if "image" in service]
    assert [image for image in images if not re.search(r":v?\d+\.\d+\.\d+$", image)] == []
    mounted = [volume.split(":")[0] for service in services for volume in service.get("volumes", [])]
    assert [each for each in mounted if not (REPO / each).is_file()] == ["lake", "scratch", "lake", "lake"]
    assert COMPOSE["volumes"].keys() == {"lake", "scratch"}


def test_the_connector_of_the_compose_file_has_a_scratch_folder_on_a_disk_and_the_least_rights() -> None:
    sink = COMPOSE["services"]["sink"]
    assert (sink["volumes"], sink.get("tmpfs")) == (["scratch:/tmp"], None), "batches end at 32 MB in memory"
    assert (sink["read_only"], sink["cap_drop"], sink["security_opt"]) == (True, ["ALL"], ["no-new-privileges:true"])


# --- the pages ------------------------------------------------------------------------------------------------------


def _loaded(store: str) -> dict[str, str]:
    """The settings that the store's section shows."""
    section = (DEPLOY / "stores.md").read_text().partition(f"\n## {store}\n")[2].partition("\n## ")[0]
    [block] = re.findall(r"```dotenv\n(.*?)```", section, re.DOTALL)
    return {name: value or "" for name, value in dotenv_values(stream=StringIO(block)).items()}


@pytest.mark.parametrize(
    ("store", "uri"),
    [
        ("Amazon S3", "s3://my-lake"),
        ("S3-compatible stores", "s3://my-lake"),
        ("Google Cloud Storage", "gs://my-lake"),
        ("Azure Blob Storage", "az://my-container"),
        ("Local folder", "file:///data/lake"),
    ],
)
def test_the_example_of_a_store_is_valid(store: str, uri: str) -> None:
    with patch.dict(os.environ, _loaded(store), clear=True):
        settings = load_settings()
    assert settings.storage.uri == uri
    assert settings.root == "data"
