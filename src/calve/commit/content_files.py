"""Hands content files from Python's JSON to an append or a row delta in the JVM, all of them in one call.

Through py4j each file would cost two calls: 420 ms for 1,000 files instead of 50 (measured).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from calve.engine.compiled import compiled

__all__ = ["ContentFiles"]

_JAVA = """
import java.util.Iterator;
import java.util.Map;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.DoubleNode;
import org.apache.iceberg.util.JsonUtil;

public class %s {
  public void append(AppendFiles update, Map specs, String files) throws Exception {
    Iterator nodes = JsonUtil.mapper().readTree(files).elements();
    while (nodes.hasNext()) {
      update.appendFile((DataFile) read((JsonNode) nodes.next(), specs));
    }
  }

  public void change(RowDelta update, Map specs, String files) throws Exception {
    Iterator nodes = JsonUtil.mapper().readTree(files).elements();
    while (nodes.hasNext()) {
      ContentFile file = read((JsonNode) nodes.next(), specs);
      if (file instanceof DeleteFile) {
        update.addDeletes((DeleteFile) file);
      } else {
        update.addRows((DataFile) file);
      }
    }
  }

  private ContentFile read(JsonNode file, Map specs) {
    readNumbers((ArrayNode) file.get("partition"));
    return ContentFileParser.fromJson(file, specs);
  }

  private void readNumbers(ArrayNode partition) {
    for (int i = 0; i < partition.size(); i++) {
      JsonNode value = (JsonNode) partition.get(i);
      if (value.isArray()) {
        partition.set(i, new DoubleNode(Double.parseDouble(((JsonNode) value.get(0)).textValue())));
      }
    }
  }
}
"""


class ContentFiles:
    """The compiled loop of one JVM."""

    def __init__(self, jvm: Any) -> None:
        self._java: Any = compiled(jvm, _JAVA)

    def append(self, update: Any, specs: Any, files: Sequence[Mapping[str, Any]]) -> None:
        """Add data files to an append.

        Args:
            update: The Java `AppendFiles`.
            specs: The table's partition specs by id (`table.specs()`).
            files: Data files in the JSON of the REST catalog's specification; in `partition`, `["NaN"]`, `["Infinity"]`
                or `["-Infinity"]` stands for what JSON has no number for.
        """
        self._java.append(update, specs, json.dumps(files))

    def change(self, update: Any, specs: Any, files: Sequence[Mapping[str, Any]]) -> None:
        """Add data files and delete files to a Java `RowDelta`; otherwise as `append`."""
        self._java.change(update, specs, json.dumps(files))
