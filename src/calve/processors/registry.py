"""The processors by name."""

from __future__ import annotations

from collections.abc import Mapping

from calve.processors.convert import ConvertType
from calve.processors.date import Date
from calve.processors.decode import Decompress, ParseIon, ParseXml, WriteJson
from calve.processors.deduplicate import Aggregate, Deduplicate
from calve.processors.dissect import Dissect
from calve.processors.enrich import GeoIp, UserAgent
from calve.processors.entries import AddEntries, CopyValues, RenameKeys
from calve.processors.events import DropEvents, SplitEvent
from calve.processors.grok import Grok
from calve.processors.key_value import KeyValue
from calve.processors.lists import FilterList, WrapEntries
from calve.processors.mask import MaskColumns
from calve.processors.obfuscate import Obfuscate
from calve.processors.parse import ParseCsv, ParseJson
from calve.processors.removal import DeleteEntries, SelectEntries
from calve.processors.restructure import Flatten, ListToMap, MapToList
from calve.processors.sql import Sql
from calve.processors.strings import (
    LowercaseString,
    ReplaceString,
    SplitString,
    StringConverter,
    SubstituteString,
    TrimString,
    Truncate,
    UppercaseString,
)
from calve.processors.translate import Translate

__all__ = ["PROCESSORS"]

PROCESSORS: Mapping[str, type] = {
    "add_entries": AddEntries,
    "aggregate": Aggregate,
    "convert_entry_type": ConvertType,
    "convert_type": ConvertType,
    "copy_values": CopyValues,
    "csv": ParseCsv,
    "date": Date,
    "decompress": Decompress,
    "deduplicate": Deduplicate,
    "delete_entries": DeleteEntries,
    "dissect": Dissect,
    "drop_events": DropEvents,
    "filter_list": FilterList,
    "flatten": Flatten,
    "geoip": GeoIp,
    "grok": Grok,
    "key_value": KeyValue,
    "list_to_map": ListToMap,
    "lowercase_string": LowercaseString,
    "map_to_list": MapToList,
    "mask": MaskColumns,
    "obfuscate": Obfuscate,
    "parse_csv": ParseCsv,
    "parse_ion": ParseIon,
    "parse_json": ParseJson,
    "parse_xml": ParseXml,
    "rename_keys": RenameKeys,
    "replace_string": ReplaceString,
    "select_entries": SelectEntries,
    "split_event": SplitEvent,
    "split_string": SplitString,
    "sql": Sql,
    "string_converter": StringConverter,
    "substitute_string": SubstituteString,
    "translate": Translate,
    "trim_string": TrimString,
    "truncate": Truncate,
    "uppercase_string": UppercaseString,
    "user_agent": UserAgent,
    "wrap_entries": WrapEntries,
    "write_json": WriteJson,
}
"""The settings class of each processor."""
