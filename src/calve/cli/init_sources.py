"""The kinds of sources that `calve init` asks about: the question for a place, and its YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from calve.cli.init_proposal import Answers, Proposal
from calve.credentials import is_secret_key
from calve.errors import SettingsError
from calve.operate.database_address import DatabaseAddress

__all__ = ["SOURCES", "SourceKind"]


@dataclass(frozen=True)
class SourceKind:
    """A kind of source.

    Attributes:
        question: The question for its place.
        default: The answer to it if there is none.
        yaml: Returns its YAML for the answers and what was found, and raises ValueError for a place that is wrong.
        table: The default of the table to write.
        is_copy: Whether rows of a database are copied: then their table, key and operation are known.
    """

    question: str
    default: str
    yaml: Callable[[Answers, Proposal], str]
    table: str = "shop.events"
    is_copy: bool = False


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _http(answers: Answers, proposed: Proposal) -> str:
    port = answers.location
    port_text = port if port.isdecimal() else _text(port)
    return f"""\
    http:
      port: {port_text}                        # POST JSON or NDJSON to /log/ingest; only from this machine
"""


def _kafka(answers: Answers, proposed: Proposal) -> str:
    broker, _, topic = answers.location.rpartition("/")
    if not (broker and topic):
        raise ValueError("BROKER/TOPIC")
    is_registered = bool(answers.registry) and proposed.serde_format not in ("json", "plaintext", "bytes", "")
    schema = f"      schema: {{registry_url: {_text(answers.registry)}}}\n" if is_registered else ""
    kind = f"{proposed.serde_format or 'json'}"
    hint = "" if proposed.serde_format else "# debezium for its envelopes; avro, protobuf with `schema`: a registry"
    return f"""\
    kafka:
      bootstrap_servers: [{_text(broker)}]
      topics:
        - name: {_text(topic)}
          group_id: calve
{f"          serde_format: {kind}                  {hint}".rstrip()}
{schema}"""


def _file(answers: Answers, proposed: Proposal) -> str:
    path = answers.location
    delimiter = f', delimiter: "{proposed.delimiter}"' if proposed.delimiter else ""
    codec = (
        f"codec: {{csv: {{infer_types: true{delimiter}}}}}    # numbers are numbers; delimiter, encoding: docs/files.md"
    )
    more = f"\n      {codec}" if ".csv" in path else ""
    return f"""\
    file:
      path: {_text(path)}                        # NDJSON, JSON, CSV or Parquet; each file is read once{more}
"""


def _s3(answers: Answers, proposed: Proposal) -> str:
    bucket, _, prefix = answers.location.removeprefix("s3://").partition("/")
    if not bucket:
        raise ValueError("s3://BUCKET/PREFIX")
    codec = {"csv": "{csv: {infer_types: true}}"}.get(proposed.codec, f"{{{proposed.codec or 'ndjson'}: {{}}}}")
    only = f"\n              filter: {{include_prefix: [{_text(prefix)}]}}" if prefix else ""
    return f"""\
    s3:
      scan:
        buckets:
          - bucket:
              name: {_text(bucket)}{only}
        scheduling: {{interval: 30s}}
      codec: {codec}                   # ndjson, json, csv, parquet, avro, orc, newline
      aws: {{region: us-east-1}}
"""


def _iceberg(answers: Answers, proposed: Proposal) -> str:
    note = "" if proposed.key else "   # the columns that identify a row: the table names none"
    comments = "".join(f"          # {line}\n" for line in proposed.comments)
    return f"""\
    iceberg:                                # the rows of a table, then each change of them
      tables:
        - table_name: {_text(answers.location)}
          identifier_columns: [{", ".join(map(_text, proposed.key)) or "id"}]{note}
{comments}      {_catalog(answers.catalog)}
"""


def _catalog(properties: Mapping[str, str]) -> str:
    """Return the option `catalog`; what is secret is taken from the environment."""
    if not properties:
        return '# catalog: {type: rest, uri: "https://…", warehouse: …}    a catalog of yours instead of ./lakehouse'
    written = {
        key: f"${{env:{re.sub('[^A-Z0-9]+', '_', key.upper())}:-}}" if is_secret_key(key) else value
        for key, value in properties.items()
    }
    return f"catalog: {{{', '.join(f'{_text(key)}: {_text(value)}' for key, value in written.items())}}}"


def _postgres(answers: Answers, proposed: Proposal) -> str:
    address = _address(answers)
    return f"""\
    postgres:                               # loads the tables, then follows their changes
      host: {_text(address.host)}
      port: {address.port}
      database: {_text(address.database)}
      username: {_text(address.user)}
      password: ${{env:PGPASSWORD:-}}
{_tables(answers, proposed, address)}"""


def _mysql(answers: Answers, proposed: Proposal) -> str:
    address = _address(answers)
    return f"""\
    mysql:                                  # loads the tables, then follows their changes
      host: {_text(address.host)}
      port: {address.port}
      username: {_text(address.user)}
      password: ${{env:MYSQL_PWD:-}}
{_tables(answers, proposed, address)}"""


def _tables(answers: Answers, proposed: Proposal, address: DatabaseAddress) -> str:
    """Return the option `tables`, and what was found as comments."""
    include = ", ".join(map(_text, answers.tables or address.patterns))
    exclude = f", exclude: [{', '.join(map(_text, proposed.excluded))}]" if proposed.excluded else ""
    mode = f"      ssl_mode: {address.ssl_mode}\n" if address.ssl_mode else ""
    mode += "      allow_cleartext_password: true\n" if address.allows_cleartext else ""
    note = "    # without a key; or no_key: mirror" if exclude else ""
    comments = "".join(f"        # {line}\n" for line in proposed.comments)
    return f"{mode}      tables: {{include: [{include}]{exclude}}}{note}\n{comments}"


def _address(answers: Answers) -> DatabaseAddress:
    """Return the address of a database; a password in it is refused, because the file would keep it."""
    address = DatabaseAddress.of(answers.location, answers.source)
    if address.kind != answers.source:
        raise ValueError(f"{answers.source}://USER@HOST/DATABASE")
    if address.password:
        hint = "Leave it out: the pipeline reads it from the environment"
        raise SettingsError("The address has a password, which the file would keep", step="settings", hint=hint)
    return address


_SPARK = {
    "jdbc": """\
      read: batch                           # all rows, once for each load_id
      options:
        url: "jdbc:postgresql://localhost:5432/shop"
        driver: org.postgresql.Driver       # its class, because the jar comes by packages
        dbtable: public.orders
        user: calve
        password: ${env:DB_PASSWORD:-}
      packages: [org.postgresql:postgresql:42.7.8]
""",
    "kafka": """\
      options: {kafka.bootstrap.servers: "localhost:9092", subscribe: orders, startingOffsets: earliest}
      packages: [org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0]
      select: ["cast(value as string) message", timestamp]    # a processor such as parse_json makes columns of it
""",
}
"""What formats of Spark need, by name."""
_OF_FILES = """\
      options: {path: in}
      schema: "id long, at timestamp"       # Spark does not infer the columns of a stream
"""
_OF_OTHERS = """\
      options: {}                           # as the page of this source has them for Spark's option(…)
      # packages: [group:artifact:version]  # its jar, built for Spark 4.1 and Scala 2.13
      # read: batch                         # if it is no stream
"""


def _spark(answers: Answers, proposed: Proposal) -> str:
    name = answers.location
    is_file = name in ("csv", "json", "orc", "parquet", "text")
    return f"""\
    spark:
      format: {_text(name)}
{_SPARK.get(name, _OF_FILES if is_file else _OF_OTHERS)}"""


_COPIES = 'shop.${getMetadata("table_name")}'
SOURCES = {
    "http": SourceKind("Port to listen on", "2021", _http),
    "kafka": SourceKind("Broker and topic", "localhost:9092/events", _kafka),
    "file": SourceKind("Files, as a path or a pattern", "in/*.ndjson", _file),
    "s3": SourceKind("Bucket and prefix", "s3://logs/in/", _s3),
    "postgres": SourceKind("Server and database", "postgres://calve@localhost:5432/shop", _postgres, _COPIES, True),
    "mysql": SourceKind("Server and database", "mysql://calve@localhost:3306/shop", _mysql, _COPIES, True),
    "spark": SourceKind("Format of Spark", "kafka", _spark),
    "iceberg": SourceKind("Table to follow", "shop.orders", _iceberg, "shop.mirror", True),
}
