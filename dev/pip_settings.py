"""How pip reaches its index on this machine, for a build that runs elsewhere on it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

_ABOUT_THE_INDEX = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries")
_CA_BUNDLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "CURL_CA_BUNDLE")


def pip_settings() -> dict[str, str]:
    """The settings about the index from pip's files and environment, which wins; empty where nothing is set."""
    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, str] = {}
    for line in sorted(told.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        key = name.rpartition(".")[2]
        if key in _ABOUT_THE_INDEX:
            found[key] = str(ast.literal_eval(value))
    return found


def ca_bundle() -> Path | None:
    """The file with the authorities that this machine was told to trust, None for the system's own."""
    named = next((os.environ[name] for name in _CA_BUNDLES if os.environ.get(name)), None)
    return Path(named).resolve() if named else None
