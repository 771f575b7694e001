from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from calve.settings import option
from calve.sources.settings import SourceSettings


@dataclass(frozen=True)
class SETTINGS(SourceSettings):
    """Reads letters: files of lines that clients leave in its folder, under rising numbers."""

    accepts: ClassVar[bool] = True
    suffix: str = option(".letter", "The end of the names of letters.")

    @property
    def metadata(self) -> Mapping[str, pa.DataType]:
        return {"letter": pa.int64()}
