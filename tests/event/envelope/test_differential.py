"""The core and the exact decoder together give what the exact decoder alone gives."""

from __future__ import annotations

import os
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from calve.event.envelope import decoder
from calve.event.envelope.decoder import DecodedEnvelopes, EnvelopeDecoder, Envelopes
from calve.event.envelope.exact import RequestedAttributes
from calve.event.envelope.shape import SHAPES
from calve.event.exact_json import dump, parse_object
from event.envelope.hostile import Maker
from kit.compiled_core import needs_core

BATCHES = int(os.environ.get("CALVE_DIFFERENTIAL_BATCHES", "15"))
ROWS = int(os.environ.get("CALVE_DIFFERENTIAL_ROWS", "100"))
"""Of three formats: 9,000 envelopes by default."""


def exactly(reader: EnvelopeDecoder) -> EnvelopeDecoder:
    reader._fast._core = None
    return reader


def told(found: DecodedEnvelopes) -> list[Any]:
    """Give all that was decoded, each row as it is written by one writer."""
    rows = [
        {name: dump(parse_object(value)) if name in ("event", "json") else value for name, value in row.items()}
        for row in found.rows.to_pylist()
    ]
    return [found.rows.schema, rows, found.rejects.to_pylist(), found.skipped]


@needs_core
@pytest.mark.parametrize("form", SHAPES)
@settings(max_examples=BATCHES, deadline=None, database=None)
@given(
    seed=st.integers(0, 2**40),
    keys=st.frozensets(st.sampled_from(["id", "n", "é", 'q"']), max_size=2),
    metadata=st.one_of(st.none(), st.integers(0, 2**20)),
    given_up=st.booleans(),
    full_rows=st.booleans(),
)
@example(seed=491, keys=frozenset(), metadata=None, given_up=False, full_rows=False)  # escapes in a placeholder
def test_random_envelopes_become_what_the_exact_decoder_says(form, seed, keys, metadata, given_up, full_rows):
    chosen = random.Random(seed)
    maker, names = Maker(chosen, form), sorted(SHAPES[form].metadata)
    asked = names if metadata is None else [name for at, name in enumerate(names) if metadata >> at & 1]
    columns = {
        "event": pa.array([maker.event() for _ in range(ROWS)], pa.binary()),
        "kafka_key": pa.array([maker.key() for _ in range(ROWS)], pa.string()),
    }
    if given_up:
        columns["malformed"] = pa.array([chosen.choice([None] * 9 + ["too large"]) for _ in range(ROWS)], pa.string())
    envelopes = Envelopes(form, RequestedAttributes(frozenset(asked), keys, full_rows))
    core, exact = EnvelopeDecoder(envelopes), exactly(EnvelopeDecoder(envelopes))
    for events in (pa.table(columns), pa.table(columns).slice(ROWS // 3)):  # the second one knows the schemas
        for have, want in zip(told(core.decode(events)), told(exact.decode(events)), strict=True):
            assert have == want


@needs_core
@pytest.mark.parametrize("form", SHAPES)
def test_most_envelopes_that_are_as_usual_are_decoded_by_the_core(form, monkeypatch):
    slow: list[bytes] = []
    exact = decoder.decode
    monkeypatch.setattr(decoder, "decode", lambda *given: slow.append(given[1]) or exact(*given))
    makers = [Maker(random.Random(seed), form, oddness=0) for seed in range(50)]
    events = [maker.event() for maker in makers for _ in range(50)]
    EnvelopeDecoder(Envelopes(form, RequestedAttributes())).decode(pa.table({"event": pa.array(events, pa.binary())}))
    assert len(slow) < len(events) // 10  # truncations and messages are left to the exact decoder
