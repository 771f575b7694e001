"""ElasticMQ: a queue with SQS's protocol, as other people wrote it, on a free port of loopback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import urllib3

from calve.engine.jvm import jdk
from services import jars, process

VERSION = "1.6.14"
COORDINATES = (f"org.elasticmq:elasticmq-server_2.13:{VERSION}",)
QUICK = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
START_SECONDS = 240.0
CONFIGURATION = """\
include classpath("application.conf")
node-address {{ protocol = http, host = "127.0.0.1", port = {port}, context-path = "" }}
rest-sqs {{ enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict }}
rest-stats {{ enabled = false }}
queues {{ events {{ defaultVisibilityTimeout = 30 seconds }} }}
"""


def fetch() -> Path:
    """Download the server's jars, once; give their folder."""
    return jars.resolve(f"elasticmq-{VERSION}", *COORDINATES)


class ElasticMq(process.Server):
    """One server with one queue; a context manager.

    Args:
        folder: Where its configuration and its output go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        [self.port] = process.free_ports(1)

    @property
    def url(self) -> str:
        """The address of the queue."""
        return f"http://127.0.0.1:{self.port}/000000000000/events"

    def start(self) -> Self:
        """Start it and wait until it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file, log = self._folder / "elasticmq.conf", self._folder / "elasticmq.log"
        file.write_text(CONFIGURATION.format(port=self.port))
        main = ["-cp", f"{fetch()}/*", "org.elasticmq.server.Main"]
        command = [str(jdk.find().executable), *QUICK, f"-Dconfig.file={file}", *main]
        self._process = process.start(command, log)
        process.wait_for_port(self._process, self.port, log, START_SECONDS)
        process.wait_until(self._answers, "the queue answers", START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def send(self, body: object) -> str:
        """Put a message into the queue; return its id."""
        text = body if isinstance(body, str) else json.dumps(body)
        return str(self.ask("SendMessage", MessageBody=text)["MessageId"])

    def counts(self) -> tuple[int, int]:
        """Return how many messages are visible, and how many are hidden."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.ask("GetQueueAttributes", AttributeNames=names)["Attributes"]
        return int(found[names[0]]), int(found[names[1]])

    def ask(self, action: str, **more: Any) -> dict[str, Any]:
        """Return what the queue answers to an action."""
        headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"AmazonSQS.{action}"}
        body = json.dumps({"QueueUrl": self.url, **more})
        answer = urllib3.request("POST", f"http://127.0.0.1:{self.port}/", body=body, headers=headers)
        assert answer.status == 200, answer.data
        return dict(answer.json()) if answer.data else {}

    def _answers(self) -> bool:
        try:
            self.counts()
        except (AssertionError, urllib3.exceptions.HTTPError):
            return False
        return True
