"""The rows of Iceberg's types agree with PyIceberg: none is missing, and Arrow types and promotions are the same."""

from __future__ import annotations

import itertools

import pytest
from pyiceberg import types as iceberg
from pyiceberg.exceptions import ResolveError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, promote

from calve.table.arrow_schema import arrow_schema
from calve.table.kinds import OTHER, PRIMITIVES, named, primitive, widest_type
from calve.table.schema import VariantType

NOT_WRITTEN = {iceberg.GeometryType, iceberg.GeographyType}
SIZED = {iceberg.DecimalType: (9, 2), iceberg.FixedType: (3,)}
KINDS = [row.kind(*SIZED.get(row.kind, ())) for row in PRIMITIVES]


def test_every_type_has_a_row() -> None:
    of_iceberg = {kind for kind in iceberg.PrimitiveType.__subclasses__() if kind.__module__ == iceberg.__name__}
    assert of_iceberg - NOT_WRITTEN | {VariantType} == {row.kind for row in PRIMITIVES}
    assert [named(str(kind)) for kind in KINDS] == [primitive(kind) for kind in KINDS] == list(PRIMITIVES)
    assert primitive(iceberg.StructType()) is named("geometry") is OTHER


def test_arrow_types_are_those_of_pyiceberg() -> None:
    kinds = [kind for kind in KINDS if not isinstance(kind, VariantType)] + [iceberg.GeometryType()]
    ids = itertools.count(1)
    kinds += [iceberg.ListType(next(ids), kind, element_required=False) for kind in kinds]
    kinds += [iceberg.MapType(next(ids), iceberg.StringType(), next(ids), kind, value_required=False) for kind in kinds]
    required = [at % 2 == 0 and not isinstance(kind, iceberg.UnknownType) for at, kind in enumerate(kinds)]
    nested = [iceberg.NestedField(next(ids), str(kind), kind, required=must) for kind, must in zip(kinds, required)]
    fields = [iceberg.NestedField(next(ids), f.name, f.field_type, required=f.required, doc="d") for f in nested]
    schema = Schema(*fields, iceberg.NestedField(next(ids), "s", iceberg.StructType(*nested)))
    assert arrow_schema(schema).equals(schema_to_pyarrow(schema), check_metadata=True)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_type_is_widened_as_iceberg_allows(kind: iceberg.IcebergType) -> None:
    if widest_type(kind) != kind:
        assert promote(kind, widest_type(kind)) == widest_type(kind)
        return
    for wider in (iceberg.LongType(), iceberg.DoubleType(), iceberg.DecimalType(38, 2)):
        if wider != kind and not isinstance(kind, iceberg.UnknownType):
            with pytest.raises(ResolveError):
                promote(kind, wider)
