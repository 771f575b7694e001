"""A small queue that speaks SQS's JSON protocol: visibility, new handles for each delivery, and forced redelivery."""

from __future__ import annotations

import itertools
import json
import threading
import time
import uuid
from typing import Any

from services.scripted import Scripted

_POLL_SECONDS = 0.02


class SqsQueue:
    """One queue on a free port of loopback, with `messages` as SQS would count them."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.received: list[str] = []
        self.extended: list[str] = []
        self.refuses = ""
        self._lock, self._numbers = threading.Lock(), itertools.count()
        self._redelivered = 0
        self._server = Scripted(self._answer)

    @property
    def url(self) -> str:
        """The address of the queue."""
        return f"{self._server.address}/000000000000/events"

    @property
    def asked(self) -> list[dict[str, str]]:
        """The headers of all requests."""
        return [headers for _, _, _, headers in self._server.asked]

    def send(self, body: object) -> str:
        """Put a message into the queue."""
        name = str(uuid.uuid4())
        with self._lock:
            text = body if isinstance(body, str) else json.dumps(body)
            self.messages[name] = {"body": text, "visible": 0.0, "handle": ""}
        return name

    def redeliver(self) -> None:
        """Make all messages visible, as after their timeout; a poll that waits gets none, for its client may be dead."""
        with self._lock:
            self._redelivered += 1
            for message in self.messages.values():
                message["visible"] = 0.0

    def __enter__(self) -> SqsQueue:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if self.refuses:
            return 403, json.dumps({"__type": f"com.amazonaws.sqs#{self.refuses}", "message": "no"}).encode()
        asked = json.loads(body)
        if asked["QueueUrl"] != self.url:
            return 400, b'{"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no such queue"}'
        return 200, json.dumps(self._action(asked)(asked)).encode()

    def _action(self, asked: dict[str, Any]) -> Any:
        """Return what answers a request, by its keys: the header with the action is not passed on."""
        if "WaitTimeSeconds" in asked:
            return self._receive
        if "Entries" not in asked:
            return lambda _: {"Attributes": {}}
        return self._extend if "VisibilityTimeout" in asked["Entries"][0] else self._delete

    def _receive(self, asked: dict[str, Any]) -> dict[str, Any]:
        deadline, redelivered = time.monotonic() + asked["WaitTimeSeconds"], self._redelivered
        while not (found := self._take(asked, redelivered)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return {"Messages": found} if found else {}

    def _take(self, asked: dict[str, Any], redelivered: int) -> list[dict[str, str]]:
        found = []
        now = time.monotonic()
        with self._lock:
            for name, message in self.messages.items() if redelivered == self._redelivered else ():
                if message["visible"] <= now and len(found) < asked["MaxNumberOfMessages"]:
                    message["visible"] = now + asked["VisibilityTimeout"]
                    message["handle"] = f"{name}/{next(self._numbers)}"
                    self.received.append(name)
                    found.append({"MessageId": name, "ReceiptHandle": message["handle"], "Body": message["body"]})
        return found

    def _delete(self, asked: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            for entry in asked["Entries"]:
                self.messages.pop(entry["ReceiptHandle"].partition("/")[0], None)
        return {"Successful": [{"Id": entry["Id"]} for entry in asked["Entries"]], "Failed": []}

    def _extend(self, asked: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            for entry in asked["Entries"]:
                name = entry["ReceiptHandle"].partition("/")[0]
                if name in self.messages:
                    self.messages[name]["visible"] = time.monotonic() + entry["VisibilityTimeout"]
                    self.extended.append(name)
        return {"Successful": [], "Failed": []}
