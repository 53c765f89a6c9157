"""Makes what is generated of the Helm chart: the schema of its values, and the plain manifest for Kubernetes.

``python -m dev.chart`` writes both files, and the connector's version into the chart.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from app import __version__
from app.parts.schema.json_schema import json_schema
from dev.connector import REPO
from dev.go_program import GoProgram
from dev.machine import ServiceError

CHART: Final = REPO / "deploy" / "chart"
SCHEMA: Final = CHART / "values.schema.json"
EXAMPLE: Final = CHART / "ci" / "example-values.yaml"
MANIFEST: Final = REPO / "docs" / "deploy" / "kubernetes.yaml"
RELEASE: Final = "quix-ts-datalake-sink"
PUBLISHED: Final = f"ghcr.io/OWNER/{RELEASE}"  # where the workflow of a release pushes the image

# The version in ``Chart.yaml`` and in ``app/__init__.py``.
VERSION: Final = re.compile(r"(?<=ersion: )\d\S*|(?<=version__ = \")[^\"]+")

HELM: Final = GoProgram(
    title="Helm",
    command="helm",
    module="helm.sh/helm/v4/cmd/helm",
    version="v4.3.1",
    oldest_go=(1, 26),
    variable="HELM",
    any_version=False,  # each may write the manifest in another way
    duration="some minutes",
)

_HEADER = """\
# The connector on Kubernetes. Replace what is in capitals, and the settings; then
#
#   kubectl apply -f kubernetes.yaml
#   kubectl rollout status deployment/quix-ts-datalake-sink
#
# Made from the chart in deploy/chart, see kubernetes.md.
"""
# The probes, the annotations for Prometheus and the network policy expect the default port, and no command.
_FIXED = {"HTTP_PORT", "COMMAND"}

_TEXT = {"type": "string"}
_ON = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
_TEXTS = {"type": "array", "items": _TEXT}
_LABELS = {"type": "object", "additionalProperties": _TEXT}
_OF_KUBERNETES = {"type": "object"}
_LIST_OF_KUBERNETES = {"type": "array", "items": _OF_KUBERNETES}


def values_schema() -> str:
    """Returns the text of ``values.schema.json``, which refuses names that neither the chart nor the connector has."""
    variables = {name: each for name, each in json_schema()["properties"].items() if name not in _FIXED}
    secrets = {name for name, each in variables.items() if each.get("writeOnly")}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#"} | _object(
        image=_object(repository=_TEXT, tag=_TEXT),
        imagePullSecrets=_TEXTS,
        settings=_object(
            **{name: _value(each) for name, each in variables.items() if name not in secrets},
            **{f"{name}_FILE": _TEXT for name in variables},
        ),
        secrets=_object(**{name: _value(variables[name]) for name in variables if name in secrets}),
        existingSecrets=_TEXTS,
        extraEnv=_LIST_OF_KUBERNETES,
        extraVolumes=_LIST_OF_KUBERNETES,
        extraVolumeMounts=_LIST_OF_KUBERNETES,
        replicas=_COUNT,
        job=_object(schedule=_TEXT),
        resources=_OF_KUBERNETES,
        scratchSize=_TEXT,
        serviceAccount=_object(annotations=_LABELS, labels=_LABELS),
        podLabels=_LABELS,
        nodeSelector=_LABELS,
        tolerations=_LIST_OF_KUBERNETES,
        topologySpreadConstraints=_LIST_OF_KUBERNETES,
        compact=_object(enabled=_ON, schedule=_TEXT, args=_TEXTS, resources=_OF_KUBERNETES),
        podMonitor=_object(enabled=_ON, labels=_LABELS),
        networkPolicy=_object(enabled=_ON, **{"from": _LIST_OF_KUBERNETES}, egress=_LIST_OF_KUBERNETES),
        keda=_object(
            enabled=_ON, minReplicas=_COUNT, maxReplicas=_COUNT, lagThreshold=_COUNT, triggerAuthentication=_TEXT
        ),
        **{"global": _OF_KUBERNETES},  # Helm adds it where the chart is part of another one
    )
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def manifest() -> str:
    """Returns the chart with the example's values, as text to apply without Helm.

    Raises:
        ServiceError: Helm cannot be had, or refuses the chart.
    """
    image = f"image.repository={PUBLISHED}"
    rendered = helm("template", RELEASE, str(CHART), "--values", str(EXAMPLE), "--set", image)
    if rendered.returncode != 0:
        raise ServiceError(f"rendering {CHART} failed: {rendered.stderr}")
    return _HEADER + rendered.stdout


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HELM.path(), *arguments], capture_output=True, text=True, check=False)


def _value(variable: Mapping[str, Any]) -> dict[str, Any]:
    """What the chart takes for a variable: YAML makes a number or a boolean of some texts."""
    kept = {key: variable[key] for key in ("description", "enum", "default", "pattern") if key in variable}
    return {"type": ["string", "number", "boolean"]} | kept


def _object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


if __name__ == "__main__":
    description = CHART / "Chart.yaml"
    description.write_text(VERSION.sub(__version__, description.read_text()))
    SCHEMA.write_text(values_schema())
    MANIFEST.write_text(manifest())
