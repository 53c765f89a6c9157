"""``python main.py config-schema``: the settings as JSON Schema."""

import json
from argparse import Namespace

from app.commands.output import print_line
from app.config.json_schema import json_schema
from app.config.settings import Settings


def config_schema(_: Settings, __: Namespace) -> int:
    print_line(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
