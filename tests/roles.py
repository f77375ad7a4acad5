"""Roles at a server of S3: who asks is known by the access key, and what may be asked by a policy as IAM has them.

Of policies as much is understood as `jobs/roles/` needs, and a statement with anything else is refused: `Effect`,
`Action`, `Resource`, and the condition `StringLike` on `s3:prefix`. As at Amazon's store, whoever may not list a prefix
is not told that there is no such object, and a copy reads its source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_ARN = "arn:aws:s3:::"
_PREFIX = "s3:prefix"


@dataclass(frozen=True)
class Asked:
    """One right that a request needs.

    Attributes:
        action: Its name in policies.
        resource: A bucket, or a bucket and a key.
        prefix: What is to be listed.
    """

    action: str
    resource: str
    prefix: str | None = None


@dataclass
class Roles:
    """Decides which requests are refused, and keeps what was asked.

    Attributes:
        policies: Access key -> policy, as IAM has it.
        asked: Access key and right -> whether it was given.
    """

    policies: Mapping[str, Mapping[str, Any]]
    asked: dict[tuple[str, Asked], bool] = field(default_factory=dict)

    @classmethod
    def read(cls, files: Mapping[str, Path]) -> Roles:
        """Those of files, by access key."""
        return cls({key: json.loads(file.read_text(encoding="utf-8")) for key, file in files.items()})

    def refuse(self, role: str, rights: Iterable[Asked]) -> bool:
        """Whether a role lacks one of the rights."""
        given = [self._give(role, right) for right in rights]
        return not given or not all(given)

    def _give(self, role: str, asked: Asked) -> bool:
        effects = {
            each["Effect"] for each in self.policies.get(role, {"Statement": []})["Statement"] if _is_of(each, asked)
        }
        self.asked[role, asked] = given = effects == {"Allow"}
        return given


def role_of(authorization: str) -> str:
    """The access key of a request."""
    named = re.search(r"Credential=([^/]+)/", authorization)
    return named[1] if named else ""


def rights_of(method: str, path: str, copied: str = "") -> list[Asked]:
    """What a request needs; nothing where it is not known.

    Args:
        method: Of the request.
        path: With its query; the bucket is the first part.
        copied: Bucket and key of the object that is copied.
    """
    split = urlsplit(path)
    bucket, _, key = unquote(split.path).lstrip("/").partition("/")
    query = parse_qs(split.query, keep_blank_values=True)
    if key:
        action = {
            "GET": "GetObject",
            "HEAD": "GetObject",
            "PUT": "PutObject",
            "POST": "PutObject",
            "DELETE": "AbortMultipartUpload" if "uploadId" in query else "DeleteObject",
        }[method]
        source = [Asked("s3:GetObject", unquote(copied).lstrip("/"))] if copied else []
        return [Asked(f"s3:{action}", f"{bucket}/{key}"), *source]
    if method == "GET" and "versioning" in query:
        return [Asked("s3:GetBucketVersioning", bucket)]
    if method in ("GET", "HEAD") and (method == "HEAD" or "list-type" in query):
        return [Asked("s3:ListBucket", bucket, query.get("prefix", [""])[0])]
    return []


def right_to_miss(path: str) -> Asked:
    """What whoever is told that there is no object of a name must be allowed: to list it."""
    bucket, _, key = unquote(urlsplit(path).path).lstrip("/").partition("/")
    return Asked("s3:ListBucket", bucket, key)


def _is_of(statement: Mapping[str, Any], asked: Asked) -> bool:
    """Whether a statement speaks of a right."""
    unknown = set(statement) - {"Sid", "Effect", "Action", "Resource", "Condition"}
    if unknown:
        raise ValueError(f"a statement with {unknown}")
    if asked.action not in _listed(statement["Action"]):
        return False
    if not any(fnmatchcase(f"{_ARN}{asked.resource}", each) for each in _listed(statement["Resource"])):
        return False
    for kind, condition in statement.get("Condition", {}).items():
        if kind != "StringLike" or set(condition) != {_PREFIX}:
            raise ValueError(f"a condition {kind} on {set(condition)}")
        if asked.prefix is None or not any(fnmatchcase(asked.prefix, each) for each in _listed(condition[_PREFIX])):
            return False
    return True


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
