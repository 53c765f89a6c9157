"""What the figures were measured on."""

import os
import platform
import re
import subprocess
from pathlib import Path

from dev.java import find_java
from dev.kafka_jars import KAFKA_VERSION
from dev.minio_binary import minio_binary


def facts() -> dict[str, str]:
    """Name and value of each fact, in the order to show them."""
    model = _first("/proc/cpuinfo", r"model name\s*:\s*(.+)")
    memory_kb = _first("/proc/meminfo", r"MemTotal:\s*(\d+)")
    return {
        "Processor": f"{len(os.sched_getaffinity(0))} cores, {model or 'of an unknown model'}",
        "Memory": f"{int(memory_kb) / 2**20:.1f} GB",
        "Load average before": f"{os.getloadavg()[0]:.2f}",
        "System": f"{platform.system()} {platform.release().partition('-')[0]}, {platform.machine()}",
        "Python": platform.python_version(),
        "Java": _first_line(find_java(), "-version"),
        "Kafka": KAFKA_VERSION,
        "MinIO": _first_line(minio_binary(), "--version"),
    }


def _first(path: str, pattern: str) -> str:
    found = re.search(pattern, Path(path).read_text())
    return found[1].strip() if found else ""


def _first_line(*command: str) -> str:
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    return told.stdout.splitlines()[0].replace('"', "")
