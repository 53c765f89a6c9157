"""The Helm chart: it gives valid objects of Kubernetes, and refuses values that nobody can have meant."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.parts.commands.command_line import new_parser
from dev.chart import CHART, EXAMPLE, MANIFEST, RELEASE, helm, manifest
from dev.release import package_chart

pytestmark = pytest.mark.usefixtures("helm_program")

KUBERNETES = "1.37"
# No schema of Kubernetes has these: tests below check the fields that their definitions demand.
DEFINED_ELSEWHERE = {"PodMonitor", "ScaledObject"}
DEFAULTS: dict[str, Any] = {}
OF_EXAMPLE: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
EVERYTHING = OF_EXAMPLE | {
    "imagePullSecrets": ["registry"],
    "existingSecrets": ["kafka-login", "store-keys"],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "serviceAccount": {"annotations": {"azure.workload.identity/client-id": "id"}, "labels": {"team": "data"}},
    "podLabels": {"azure.workload.identity/use": "true"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "lake", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
        {"topologyKey": "kubernetes.io/hostname", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
    ],
    "compact": {"enabled": True, "args": ["--folder", "year=2024/*"], "resources": {"limits": {"memory": "4Gi"}}},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "egress": [{"ports": [{"port": 53, "protocol": "UDP"}, {"port": 443}, {"port": 9092}]}],
    },
    "keda": {"enabled": True, "triggerAuthentication": "kafka-login"},
}
[_BLOCK] = re.findall(r"```yaml\n(.*?)```", MANIFEST.with_suffix(".md").read_text(), re.DOTALL)
OF_PAGE: dict[str, Any] = yaml.safe_load(_BLOCK)
NIGHTLY = {name: value for name, value in EVERYTHING.items() if name not in {"compact", "podMonitor", "keda"}} | {
    "settings": OF_EXAMPLE["settings"] | OF_PAGE["settings"],
    "job": OF_PAGE["job"],
    "replicas": 3,
}


@pytest.fixture
def template(tmp_path: Path) -> Any:
    """A function that renders the chart with these values."""

    def render(values: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "values.json"
        file.write_text(json.dumps(values))  # JSON is YAML
        return helm("template", RELEASE, str(CHART), "--values", str(file))

    return render


@pytest.fixture
def objects(template: Any) -> Any:
    """A function that returns the objects of the chart with these values, by kind."""

    def of(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        rendered = template(values)
        assert rendered.returncode == 0, rendered.stderr
        found = [document for document in yaml.safe_load_all(rendered.stdout) if document]
        assert len({document["kind"] for document in found}) == len(found)
        return {document["kind"]: document for document in found}

    return of


def test_the_manifest_is_what_the_chart_makes_of_the_example() -> None:
    assert MANIFEST.read_text() == manifest(), "`make generated` writes it"


def test_the_chart_of_a_release_has_the_image_of_its_registry(tmp_path: Path) -> None:
    chart = package_chart("1.2.3", "ghcr.io/acme/sink", tmp_path)
    [image] = re.findall(r"image: (\S+)", helm("template", RELEASE, str(chart)).stdout)
    assert image == "ghcr.io/acme/sink:1.2.3"


def test_helm_finds_nothing_to_remark() -> None:
    linted = helm("lint", "--strict", str(CHART), "--values", str(EXAMPLE))
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (DEFAULTS, {"ServiceAccount", "ConfigMap", "Deployment", "PodDisruptionBudget"}),
        (OF_EXAMPLE, {"ServiceAccount", "ConfigMap", "Deployment", "PodDisruptionBudget", "Secret"}),
        (
            EVERYTHING,
            {"ServiceAccount", "ConfigMap", "Deployment", "PodDisruptionBudget", "Secret", "CronJob", "NetworkPolicy"}
            | DEFINED_ELSEWHERE,
        ),
        (NIGHTLY, {"ServiceAccount", "ConfigMap", "Secret", "CronJob", "NetworkPolicy"}),
    ],
    ids=["defaults", "example", "everything", "nightly"],
)
def test_each_object_is_valid(values: Mapping[str, Any], kinds: set[str], objects: Any) -> None:
    found = objects(values)
    assert set(found) == kinds
    for kind in kinds - DEFINED_ELSEWHERE:
        kubernetes_validate.validate(found[kind], KUBERNETES, strict=True)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"replica": 2}, "replica"),
        ({"compact": {"enable": True}}, "enable"),
        ({"image": {"tag": 1.5}}, "tag"),
        ({"settings": {"HIVE_COLUMN": "location"}}, "HIVE_COLUMN"),
        ({"settings": {"ON_BAD_RECORD": "ignore"}}, "ON_BAD_RECORD"),
        ({"settings": {"KAFKA_SASL_PASSWORD": "secret"}}, "KAFKA_SASL_PASSWORD"),
        ({"secrets": {"HIVE_COLUMNS": "location"}}, "HIVE_COLUMNS"),
        ({"keda": {"enabled": True}}, "settings.KAFKA_BOOTSTRAP_SERVERS"),
        ({"settings": {"UNTIL": "now"}}, "settings.UNTIL needs job.schedule"),
        ({"job": NIGHTLY["job"]}, "job.schedule needs settings.UNTIL"),
        (NIGHTLY | {"keda": {"enabled": True}}, "keda.enabled"),
        (NIGHTLY | {"podMonitor": {"enabled": True}}, "podMonitor.enabled"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_refused_by_name(values: Mapping[str, Any], word: str, template: Any) -> None:
    refused = template(values)
    assert refused.returncode != 0
    assert word in refused.stderr


def test_values_of_any_type_are_the_texts_that_were_meant(objects: Any) -> None:
    settings = {"BATCH_SIZE": 1_000_000, "COMMIT_INTERVAL": 0.5, "CREATE_BUCKET": True, "TABLE_NAME": "007"}
    password = 'a "quoted"\n\\ word: #é'
    found = objects({"settings": settings, "secrets": {"KAFKA_SASL_PASSWORD": password}})
    assert found["ConfigMap"]["data"] == {
        "BATCH_SIZE": "1000000",
        "COMMIT_INTERVAL": "0.5",
        "CREATE_BUCKET": "true",
        "TABLE_NAME": "007",
    }
    assert found["Secret"]["stringData"] == {"KAFKA_SASL_PASSWORD": password}


def test_new_settings_start_new_pods(objects: Any) -> None:
    pods = [objects({"settings": {"BATCH_SIZE": size}})["Deployment"]["spec"]["template"] for size in (1, 2)]
    assert pods[0]["metadata"]["annotations"] != pods[1]["metadata"]["annotations"]


def test_whoever_reads_pods_learns_nothing_of_a_secret(objects: Any) -> None:
    given = [{"secrets": {"KAFKA_SASL_PASSWORD": password}} for password in ("first", "second")]
    without_secrets = [{kind: each for kind, each in objects(one).items() if kind != "Secret"} for one in given]
    assert without_secrets[0] == without_secrets[1]


@pytest.mark.parametrize(("values", "command"), [(EVERYTHING, "compact"), (NIGHTLY, None)])
def test_a_job_runs_as_the_connector_does(values: Mapping[str, Any], command: str | None, objects: Any) -> None:
    deployment = objects(EVERYTHING)["Deployment"]["spec"]
    pod, job = deployment["template"], objects(values)["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]
    [container], [of_job] = pod["spec"]["containers"], job["spec"]["containers"]
    of_pods = ("serviceAccountName", "automountServiceAccountToken", "securityContext", "volumes", "nodeSelector")
    assert [job["spec"][name] for name in of_pods] == [pod["spec"][name] for name in of_pods]
    of_containers = ("image", "envFrom", "env", "securityContext", "volumeMounts", "terminationMessagePolicy")
    assert [of_job[name] for name in of_containers] == [container[name] for name in of_containers]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert new_parser().parse_args(of_job.get("args", [])).command == command
    selector = deployment["selector"]["matchLabels"]
    assert not selector.items() <= job["metadata"]["labels"].items(), "its pod would count as a replica"
    assert "annotations" not in job["metadata"], "Prometheus would miss it once it has ended"


def test_a_run_of_the_night_goes_on_after_an_error_and_is_alone(objects: Any) -> None:
    spec = objects(NIGHTLY)["CronJob"]["spec"]
    job = spec["jobTemplate"]["spec"]
    assert (spec["schedule"], spec["timeZone"], spec["concurrencyPolicy"]) == ("30 0 * * *", "Etc/UTC", "Forbid")
    assert (job["parallelism"], job["completions"]) == (3, 3)
    pod, of_deployment = job["template"]["spec"], objects(EVERYTHING)["Deployment"]["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "OnFailure"
    assert pod["terminationGracePeriodSeconds"] == of_deployment["terminationGracePeriodSeconds"]
    probes = [one["containers"][0]["livenessProbe"] for one in (pod, of_deployment)]
    assert probes[0] == probes[1]


def test_own_secrets_are_read_beside_that_of_the_chart(objects: Any) -> None:
    [container] = objects(EVERYTHING)["Deployment"]["spec"]["template"]["spec"]["containers"]
    secrets = [each["secretRef"]["name"] for each in container["envFrom"] if "secretRef" in each]
    assert secrets == [RELEASE, "kafka-login", "store-keys"]


def test_pods_are_spread_among_themselves(objects: Any) -> None:
    spec = objects(EVERYTHING)["Deployment"]["spec"]
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    assert [each["labelSelector"] for each in spread] == [spec["selector"]] * 2


def test_the_operator_of_prometheus_reads_the_port_of_the_pods(objects: Any) -> None:
    found = objects(EVERYTHING)
    monitor, deployment = found["PodMonitor"], found["Deployment"]["spec"]
    [container] = deployment["template"]["spec"]["containers"]
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert monitor["spec"] == {
        "selector": deployment["selector"],
        "podMetricsEndpoints": [{"port": container["ports"][0]["name"]}],
    }
    annotations = deployment["template"]["metadata"]["annotations"]
    assert not [name for name in annotations if name.startswith("prometheus.io")], "they would be read twice"


@pytest.mark.parametrize("begins", ["earliest", "-7d"])
def test_keda_scales_the_deployment_by_the_lag_of_its_group(objects: Any, begins: str) -> None:
    """It knows no times."""
    found = objects(EVERYTHING | {"settings": OF_EXAMPLE["settings"] | {"AUTO_OFFSET_RESET": begins}})
    scaled = found["ScaledObject"]
    assert scaled["apiVersion"] == "keda.sh/v1alpha1"
    assert scaled["spec"]["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"]
    [trigger] = scaled["spec"]["triggers"]
    settings = OF_EXAMPLE["settings"]
    assert trigger == {
        "type": "kafka",
        "metadata": {
            "bootstrapServers": settings["KAFKA_BOOTSTRAP_SERVERS"],
            "consumerGroup": settings["CONSUMER_GROUP"],
            "topic": settings["input"],
            "offsetResetPolicy": "earliest",
            "lagThreshold": "1000000",
        },
        "authenticationRef": {"name": "kafka-login"},
    }
    assert "replicas" not in found["Deployment"]["spec"], "an upgrade would undo what KEDA decided"


def test_a_network_policy_without_rules_lets_nobody_in_and_everything_out(objects: Any) -> None:
    spec = objects({"networkPolicy": {"enabled": True}})["NetworkPolicy"]["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    assert "ingress" not in spec
