"""Keys of MinIO that may do what a policy allows, and nothing else."""

import json
from collections.abc import Mapping
from typing import Any

import boto3

from dev.minio import LocalMinio

Policy = Mapping[str, Any]


def restricted_keys(server: LocalMinio, policy: Policy) -> dict[str, str]:
    """Temporary keys with these rights alone, by the names of the fields of ``S3Target``."""
    service: Any = boto3.client(
        "sts",
        endpoint_url=server.endpoint_url,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        region_name=server.region,
    )
    keys = service.assume_role(
        RoleArn="arn:aws:iam::000000000000:role/any",  # MinIO has no roles: the policy is all that counts
        RoleSessionName="restricted",
        Policy=json.dumps(policy),
    )["Credentials"]
    return {
        "access_key": keys["AccessKeyId"],
        "secret_key": keys["SecretAccessKey"],
        "session_token": keys["SessionToken"],
    }
