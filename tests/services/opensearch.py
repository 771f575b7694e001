"""A real OpenSearch node on free ports of loopback, run from its jars, with what tests do to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pyspark
import urllib3

from calve.engine.jvm import jdk
from services import jars, process

VERSION = "2.19.6"
COORDINATES = (
    f"org.opensearch:opensearch:{VERSION}",
    *(
        f"org.opensearch.plugin:{name}:{VERSION}"
        for name in ("transport-netty4-client", "lang-painless", "ingest-common")
    ),
    "org.apache.logging.log4j:log4j-core:2.25.4",
)
JAVA_OPTIONS = ("-Xms512m", "-Xmx512m", "-Dlog4j2.disable.jmx=true")
START_SECONDS = 240
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
ANSWER_SECONDS = 120


def fetch() -> Path:
    """Download the node's jars, once; give their folder."""
    return jars.resolve(f"opensearch-{VERSION}", *COORDINATES)


class OpenSearch(process.Server):
    """One node in a folder; killed and started again it keeps its ports and its data.

    Args:
        folder: Where data and output go.
        options: More for the JVM; by default what makes it start soon.
    """

    def __init__(self, folder: Path, options: Sequence[str] = QUICK) -> None:
        self.folder = folder
        self.port, self._transport = process.free_ports(2)
        self._options = options
        self._pool = urllib3.PoolManager()

    @property
    def address(self) -> str:
        """What `hosts` takes."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start the node and wait until it answers."""
        (self.folder / "config").mkdir(parents=True, exist_ok=True)
        (self.folder / "logs").mkdir(exist_ok=True)
        log = self.folder / "opensearch.log"
        self._process = process.start(self._command(), log)
        process.wait_for_port(self._process, self.port, log, START_SECONDS)
        process.wait_until(self._answers, "the node answers", START_SECONDS)
        return self

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request and give its answer; anything but 2xx is an AssertionError."""
        answer = self._pool.request(
            method,
            f"{self.address}/{path}",
            body=None if body is None else body if isinstance(body, bytes) else json.dumps(body),
            headers={"Content-Type": "application/json"},
            retries=False,
            timeout=ANSWER_SECONDS,
        )
        assert answer.status < 300, answer.data[:1000]
        return json.loads(answer.data)

    def documents(self, index: str) -> dict[str, Any]:
        """Give every document of an index, by id, after a refresh."""
        self.call("POST", f"{index}/_refresh")
        found: dict[str, Any] = {}
        page = self.call("POST", f"{index}/_search?scroll=1m", {"size": 10_000, "sort": ["_doc"]})
        while page["hits"]["hits"]:
            found |= {hit["_id"]: hit["_source"] for hit in page["hits"]["hits"]}
            page = self.call("POST", "_search/scroll", {"scroll": "1m", "scroll_id": page["_scroll_id"]})
        return found

    def count(self, index: str) -> int:
        """Give the number of documents of an index after a refresh; 0 where it does not exist."""
        self.call("POST", f"{index}/_refresh?ignore_unavailable=true")
        return int(self.call("GET", f"{index}/_count?ignore_unavailable=true")["count"])

    def _command(self) -> list[str]:
        spark = Path(pyspark.__file__).parent / "jars"
        janino = [jar for name in ("janino", "commons-compiler") for jar in spark.glob(f"{name}-*.jar")]
        path = ":".join(map(str, [fetch() / "*", *janino]))
        source = Path(__file__).with_name("Node.java")
        return [
            str(jdk.find().executable),
            *JAVA_OPTIONS,
            *self._options,
            *("-cp", path, "org.codehaus.janino.SimpleCompiler", str(source), "Node"),
            *(str(self.folder.absolute()), str(self.port), str(self._transport)),
        ]

    def _answers(self) -> bool:
        try:
            return bool(self.call("GET", "_cluster/health?wait_for_status=yellow&timeout=1s")["status"] != "red")
        except (AssertionError, urllib3.exceptions.HTTPError):
            return False
