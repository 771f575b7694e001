"""The kinds of sources that `calve init` asks about: the question for a place, and its YAML."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from calve.errors import SettingsError

__all__ = ["SOURCES", "SourceKind"]


@dataclass(frozen=True)
class SourceKind:
    """A kind of source.

    Attributes:
        question: The question for its place.
        default: The answer to it if there is none.
        yaml: Returns its YAML for a place, and raises ValueError for one that is wrong.
        table: The default of the table to write.
        is_copy: Whether rows of a database are copied: then their table, key and operation are known.
    """

    question: str
    default: str
    yaml: Callable[[str], str]
    table: str = "shop.events"
    is_copy: bool = False


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _http(port: str) -> str:
    shown = port if port.isdecimal() else _text(port)
    return f"""\
    http:
      port: {shown}                        # POST JSON or NDJSON to /log/ingest; only from this machine
"""


def _kafka(place: str) -> str:
    broker, _, topic = place.rpartition("/")
    if not (broker and topic):
        raise ValueError("BROKER/TOPIC")
    return f"""\
    kafka:
      bootstrap_servers: [{_text(broker)}]
      topics:
        - name: {_text(topic)}
          group_id: calve
          serde_format: json                  # debezium for its envelopes; avro, protobuf with `schema`: a registry
"""


def _file(path: str) -> str:
    codec = "codec: {csv: {infer_types: true}}    # numbers are numbers; delimiter, encoding: docs/files.md"
    more = f"\n      {codec}" if ".csv" in path else ""
    return f"""\
    file:
      path: {_text(path)}                        # NDJSON, JSON, CSV or Parquet; each file is read once{more}
"""


def _s3(place: str) -> str:
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    if not bucket:
        raise ValueError("s3://BUCKET/PREFIX")
    only = f"\n              filter: {{include_prefix: [{_text(prefix)}]}}" if prefix else ""
    return f"""\
    s3:
      scan:
        buckets:
          - bucket:
              name: {_text(bucket)}{only}
        scheduling: {{interval: 30s}}
      codec: {{ndjson: {{}}}}                   # or json, csv, parquet, avro, orc, newline
      aws: {{region: us-east-1}}
"""


def _iceberg(table: str) -> str:
    return f"""\
    iceberg:                                # the rows of a table, then each change of them
      tables:
        - table_name: {_text(table)}
          identifier_columns: [id]
      # catalog: {{type: rest, uri: "https://…", warehouse: …}}
"""


def _postgres(place: str) -> str:
    host, port, user, database = _server(place, "postgres", 5432)
    if not database:
        raise ValueError("postgres://USER@HOST/DATABASE")
    return f"""\
    postgres:                               # loads the tables, then follows their changes
      host: {_text(host)}
      port: {port}
      database: {_text(database)}
      username: {_text(user)}
      password: ${{env:PGPASSWORD:-}}
      tables: {{include: ["public.*"]}}
"""


def _mysql(place: str) -> str:
    host, port, user, database = _server(place, "mysql", 3306)
    return f"""\
    mysql:                                  # loads the tables, then follows their changes
      host: {_text(host)}
      port: {port}
      username: {_text(user)}
      password: ${{env:MYSQL_PWD:-}}
      tables: {{include: [{_text(f"{database or '*'}.*")}]}}
"""


def _server(place: str, kind: str, port: int) -> tuple[str, int, str, str]:
    """Return host, port, user and database of a URL; a password in it is refused, because the file would keep it."""
    url = urlsplit(place if "://" in place else f"{kind}://{place}")
    if not url.hostname:
        raise ValueError(f"{kind}://USER@HOST/DATABASE")
    if url.password:
        hint = "Leave it out: the pipeline reads it from the environment"
        raise SettingsError("The address has a password, which the file would keep", step="settings", hint=hint)
    return url.hostname, url.port or port, unquote(url.username or "calve"), unquote(url.path.strip("/"))


_COPIES = 'shop.${getMetadata("table_name")}'
SOURCES = {
    "http": SourceKind("Port to listen on", "2021", _http),
    "kafka": SourceKind("Broker and topic", "localhost:9092/events", _kafka),
    "file": SourceKind("Files, as a path or a pattern", "in/*.ndjson", _file),
    "s3": SourceKind("Bucket and prefix", "s3://logs/in/", _s3),
    "postgres": SourceKind("Server and database", "postgres://calve@localhost:5432/shop", _postgres, _COPIES, True),
    "mysql": SourceKind("Server and database", "mysql://calve@localhost:3306/shop", _mysql, _COPIES, True),
    "iceberg": SourceKind("Table to follow", "shop.orders", _iceberg, "shop.mirror", True),
}
