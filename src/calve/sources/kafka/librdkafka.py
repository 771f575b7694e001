"""Consumers of librdkafka for the compiled core, which builds columns of records without a Python object for each.

The only librdkafka is the one that `confluent_kafka` has loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition, cimpl

from calve.compiled import library

__all__ = ["ArrowArray", "Complaint", "Native", "NativeConsumer", "TakeResult", "UnsupportedSettingsError", "load"]

FUNCTIONS = (
    "rd_kafka_consume_batch_queue",
    "rd_kafka_message_destroy",
    "rd_kafka_message_errstr",
    "rd_kafka_message_timestamp",
    "rd_kafka_message_headers",
    "rd_kafka_header_get_all",
)
"""The functions that the core calls, in the order of `Functions` in `core/src/border/kafka.rs`."""
NEEDS_PYTHON = ("sasl.oauthbearer.", "plugin.library.paths")
"""The prefixes of properties that `confluent_kafka` does not simply pass on."""
_CONSUMER = 1
_pointer, _text, _int, _size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t


class TakeResult(ctypes.Structure):
    """The result of one call of `calve_kafka_take`."""

    _fields_ = [(name, ctypes.c_int64) for name in ("rows", "size_bytes", "kept", "reached")]


class Complaint(ctypes.Structure):
    """What librdkafka reports besides messages."""

    _fields_ = [("code", _int), ("is_of_partition", _int), ("reason", ctypes.c_char * 512)]


class ArrowArray(ctypes.Structure):
    """Memory for a `struct ArrowArray`."""

    _fields_ = [("fields", ctypes.c_int64 * 10)]


SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "calve_kafka_functions": (None, [_pointer]),
    "calve_kafka_records": (_pointer, [ctypes.c_uint32]),
    "calve_kafka_take": (_int, [_pointer, _pointer, _int, _size, ctypes.c_int64, ctypes.POINTER(TakeResult)]),
    "calve_kafka_complaint": (ctypes.c_bool, [ctypes.POINTER(Complaint)]),
    "calve_kafka_batch": (_int, [_pointer, ctypes.POINTER(ArrowArray)]),
    "calve_kafka_free": (None, [_pointer]),
    "rd_kafka_conf_new": (_pointer, []),
    "rd_kafka_conf_set": (_int, [_pointer, _text, _text, _text, _size]),
    "rd_kafka_conf_set_error_cb": (None, [_pointer, _pointer]),
    "rd_kafka_conf_destroy": (None, [_pointer]),
    "rd_kafka_new": (_pointer, [_int, _pointer, _text, _size]),
    "rd_kafka_poll_set_consumer": (_int, [_pointer]),
    "rd_kafka_queue_get_consumer": (_pointer, [_pointer]),
    "rd_kafka_queue_destroy": (None, [_pointer]),
    "rd_kafka_topic_partition_list_new": (_pointer, [_int]),
    "rd_kafka_topic_partition_list_add": (_pointer, [_pointer, _text, ctypes.c_int32]),
    "rd_kafka_topic_partition_list_set_offset": (_int, [_pointer, _text, ctypes.c_int32, ctypes.c_int64]),
    "rd_kafka_topic_partition_list_destroy": (None, [_pointer]),
    "rd_kafka_assign": (_int, [_pointer, _pointer]),
    "rd_kafka_consumer_close": (_int, [_pointer]),
    "rd_kafka_destroy": (None, [_pointer]),
}


class UnsupportedSettingsError(Exception):
    """Settings that this consumer does not support; `confluent_kafka.Consumer` accepts or explains them."""


@dataclass(frozen=True)
class Native:
    """The core, and the librdkafka that it calls; of their functions those in `SIGNATURES` may be called."""

    core: ctypes.CDLL
    kafka: ctypes.CDLL

    def consumer(self, settings: dict[str, Any]) -> NativeConsumer:
        """Return a new consumer.

        Raises:
            RefusedError: Settings are wrong, or need Python.
        """
        return NativeConsumer(self, settings)


class NativeConsumer:
    """A consumer whose records the core takes; otherwise like `confluent_kafka.Consumer`.

    Args:
        native: The core and librdkafka.
        settings: librdkafka's properties; `error_cb` is the core's.

    Raises:
        RefusedError: Settings are wrong, or need Python.
    """

    def __init__(self, native: Native, settings: dict[str, Any]) -> None:
        self._kafka = native.kafka
        conf, reason = self._conf(native, settings), ctypes.create_string_buffer(512)
        self._handle: int = self._kafka.rd_kafka_new(_CONSUMER, conf, reason, len(reason))
        if not self._handle:
            self._kafka.rd_kafka_conf_destroy(conf)
            raise UnsupportedSettingsError
        self._kafka.rd_kafka_poll_set_consumer(self._handle)
        self.queue: int = self._kafka.rd_kafka_queue_get_consumer(self._handle)

    def _conf(self, native: Native, settings: dict[str, Any]) -> int:
        conf: int = self._kafka.rd_kafka_conf_new()
        reason = ctypes.create_string_buffer(512)
        for name, value in settings.items():
            pair = name.encode(), str(value).encode()
            if name == "error_cb":
                self._kafka.rd_kafka_conf_set_error_cb(conf, native.core.calve_kafka_error)
            elif name.startswith(NEEDS_PYTHON) or self._kafka.rd_kafka_conf_set(conf, *pair, reason, len(reason)):
                self._kafka.rd_kafka_conf_destroy(conf)
                raise UnsupportedSettingsError
        return conf

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch partitions from their offsets on, and no others.

        Raises:
            KafkaException: librdkafka cannot.
        """
        chosen = self._kafka.rd_kafka_topic_partition_list_new(len(partitions))
        for partition in partitions:
            where = chosen, partition.topic.encode(), partition.partition
            self._kafka.rd_kafka_topic_partition_list_add(*where)
            self._kafka.rd_kafka_topic_partition_list_set_offset(*where, partition.offset)
        code = self._kafka.rd_kafka_assign(self._handle, chosen)
        self._kafka.rd_kafka_topic_partition_list_destroy(chosen)
        _check(code)

    def unassign(self) -> None:
        """Fetch nothing more.

        Raises:
            KafkaException: librdkafka cannot.
        """
        _check(self._kafka.rd_kafka_assign(self._handle, None))

    def close(self) -> None:
        """End it, with its connections."""
        self._kafka.rd_kafka_consumer_close(self._handle)
        self._kafka.rd_kafka_queue_destroy(self.queue)
        self._kafka.rd_kafka_destroy(self._handle)


def _check(code: int) -> None:
    if code:
        raise KafkaException(KafkaError(code))


@cache
def load() -> Native | None:
    """Return the core and librdkafka, or None if one of them cannot be found."""
    core = library.load()
    if core is None:
        return None
    kafka = ctypes.CDLL(cimpl.__file__)  # also searches the libraries that it links against
    try:
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(core if name.startswith("calve") else kafka, name)
            function.restype, function.argtypes = result, arguments
        addresses = [ctypes.cast(getattr(kafka, name), _pointer).value for name in FUNCTIONS]
    except AttributeError:
        return None
    core.calve_kafka_functions((_pointer * len(addresses))(*addresses))
    return Native(core, kafka)
