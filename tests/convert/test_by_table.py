import random

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.convert.converter import Converter, ConvertOptions
from calve.event.validate_json import validated
from convert.events import Maker
from kit.examples import examples
from kit.tables import plain_rows, table_of

ROWS = 40


@settings(max_examples=examples(10), deadline=None, database=None)
@given(
    seed=st.integers(0, 2**40),
    tables=st.sampled_from([1, 2, 7, 100_000]),
    mismatch=st.sampled_from(["null", "dlq"]),
    through_validation=st.booleans(),
)
def test_events_of_many_tables_become_together_what_they_become_table_by_table(
    seed, tables, mismatch, through_validation
):
    rnd = random.Random(seed)
    maker = Maker(rnd)
    schema = maker.schema()
    rows = pa.table({"event": pa.array([maker.event(schema) for _ in range(ROWS)], pa.binary())})
    rows = validated(rows).rows if through_validation else rows
    owners = np.array([rnd.randrange(tables) for _ in range(len(rows))], np.int32)
    converter = Converter(
        table_of(schema), ConvertOptions(look_for_unknown=True, on_type_mismatch=mismatch, count_ignored=True)
    )
    together = dict(converter.convert_for(rows, owners))
    assert sorted(together) == np.unique(owners).tolist()
    for owner, found in together.items():
        at = np.flatnonzero(owners == owner)
        own = converter.convert(rows.take(pa.array(at)))
        assert found.row.to_pylist() == at[own.row.to_numpy()].tolist()
        assert repr(plain_rows(found.rows)) == repr(plain_rows(own.rows))
        rejects = [{**one, "row": at[one["row"]]} for one in own.rejects.to_pylist()]
        assert found.rejects.to_pylist() == rejects
        assert (found.nulled, found.unknown) == (own.nulled, own.unknown)
        assert (found.reasons, found.ignored) == (own.reasons, own.ignored)


def test_no_events_are_of_no_table():
    converter = Converter(table_of(Maker(random.Random(1)).schema()))
    assert list(converter.convert_for(pa.table({"event": pa.array([], pa.binary())}), np.array([], np.int32))) == []
