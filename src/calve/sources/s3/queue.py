"""A queue of SQS, by its JSON protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import urllib3

from calve.errors import SourceError, SourceUnavailableError
from calve.network.bounded_http import BoundedServer
from calve.network.no_answer import no_answer
from calve.sources.s3.keys import keys_of
from calve.sources.s3.settings import AwsAccount, Sqs
from calve.sources.s3.signing import signed
from calve.state.clients import SET_CLOCK, blames_clock, s3_environment

__all__ = ["LONGEST_HIDDEN_SECONDS", "Message", "Queue"]

LONGEST_HIDDEN_SECONDS = 3600.0
_TOGETHER = 10
"""The most messages of one request, by SQS."""
_HOST_PARTS = 4
_CONNECT_SECONDS, _ANSWER_SECONDS = 5.0, 30.0
"""SQS waits up to 20 seconds for messages."""
_MOST_BYTES = 32 << 20
"""Ten messages of SQS have at most 10 MB."""


@dataclass
class Message:
    """A received message; the handle changes with each delivery."""

    id: str
    handle: str
    body: str


class Queue:
    """One queue.

    Args:
        settings: Its address and times.
        aws: Region and credentials.
    """

    def __init__(self, settings: Sqs, aws: AwsAccount) -> None:
        self._settings, self._aws = settings, aws
        self._server = BoundedServer(settings.queue_url, _CONNECT_SECONDS, _ANSWER_SECONDS)

    def receive(self, wait_seconds: float, hidden_seconds: float) -> list[Message]:
        """Return some messages, which nobody else receives for a time.

        Raises:
            SourceError: The queue does not exist, or may not be read.
            SourceUnavailableError: It does not answer.
        """
        asked = {
            "MaxNumberOfMessages": self._settings.maximum_messages,
            "WaitTimeSeconds": int(wait_seconds),
            "VisibilityTimeout": int(hidden_seconds),
        }
        answer = self._ask("ReceiveMessage", asked)
        try:
            messages = answer.get("Messages") or ()
            return [
                Message(str(message["MessageId"]), str(message["ReceiptHandle"]), str(message["Body"]))
                for message in messages
            ]
        except (KeyError, TypeError) as error:
            raise self._error("does not answer as one of SQS", json.dumps(answer)[:200], SourceError) from error

    def delete(self, messages: Sequence[Message]) -> None:
        """Delete messages; one that is gone counts as deleted.

        Raises:
            SourceError: They may not be deleted.
            SourceUnavailableError: The queue does not answer.
        """
        self._each("DeleteMessageBatch", messages, {})

    def extend(self, messages: Sequence[Message], hidden_seconds: float) -> None:
        """Hide messages for a time from now on, as far as they are still ours.

        Raises:
            SourceError: It is not allowed.
            SourceUnavailableError: The queue does not answer.
        """
        self._each("ChangeMessageVisibilityBatch", messages, {"VisibilityTimeout": int(hidden_seconds)})

    def check(self) -> None:
        """Check that the queue exists; no message is received.

        Raises:
            SourceError: It does not exist, or may not be read.
            SourceUnavailableError: It does not answer.
        """
        self._ask("GetQueueAttributes", {"AttributeNames": ["ApproximateNumberOfMessages"]})

    def _each(self, action: str, messages: Sequence[Message], more: dict[str, Any]) -> None:
        for start in range(0, len(messages), _TOGETHER):
            entries = [
                {"Id": str(number), "ReceiptHandle": message.handle, **more}
                for number, message in enumerate(messages[start : start + _TOGETHER])
            ]
            self._ask(action, {"Entries": entries})

    def _ask(self, action: str, asked: dict[str, Any]) -> dict[str, Any]:
        address = urlsplit(self._settings.queue_url)
        url = f"{address.scheme}://{address.netloc}/"
        body = json.dumps({"QueueUrl": self._settings.queue_url, **asked}).encode()
        headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": f"AmazonSQS.{action}"}
        headers = signed(url, body, headers, keys_of(self._aws).keys, (self._region(), "sqs"), datetime.now(UTC))
        try:
            status, data = self._server.ask("POST", "/", body, headers, _MOST_BYTES)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._error("does not answer", no_answer(error), SourceUnavailableError) from error
        text = data.decode(errors="replace")
        if status >= 400 and blames_clock(text):
            why = f"status {status} {_reason(text)}. {SET_CLOCK}"
            raise self._error("refuses a request at this time", why, SourceUnavailableError)
        if status >= 500 or (status >= 400 and "Throttl" in text[:500]):
            raise self._error("does not answer", f"status {status} {text[:200]}", SourceUnavailableError)
        if status >= 400:
            raise self._error("refuses", f"status {status} {_reason(text)}", SourceError)
        try:
            return dict(json.loads(text)) if text else {}
        except (ValueError, TypeError, RecursionError) as error:
            raise self._error("does not answer in JSON", text[:200], SourceError) from error

    def _region(self) -> str:
        """Return the region of the settings, of the address (`sqs.<region>.amazonaws.com`), or of the environment."""
        parts = (urlsplit(self._settings.queue_url).hostname or "").split(".")
        named = parts[1] if parts[0] == "sqs" and len(parts) >= _HOST_PARTS else None
        return self._aws.region or named or s3_environment()[1] or "us-east-1"

    def _error(self, what: str, why: str, kind: type[SourceError]) -> SourceError:
        return kind(
            f"The queue {self._settings.queue_url} {what}: {why}",
            step="read",
            target=self._settings.queue_url,
            hint="Check sqs.queue_url, `aws`, and the permissions sqs:ReceiveMessage, sqs:DeleteMessage, "
            "sqs:ChangeMessageVisibility and sqs:GetQueueAttributes",
        )


def _reason(text: str) -> str:
    try:
        answer = json.loads(text)
        kind = str(answer.get("__type", "")).rpartition("#")[2]
        return f"{kind} {answer.get('message') or answer.get('Message') or ''}".strip()
    except (ValueError, AttributeError):
        return text[:200]
