from dataclasses import dataclass

import pyarrow as pa

from calve.settings import option
from calve.sources.settings import SourceSettings


@dataclass(frozen=True)
class SETTINGS(SourceSettings):
    """Reads letters: files of lines that clients leave in its folder, under rising numbers."""

    accepts = True
    metadata = {"letter": pa.int64()}  # noqa: RUF012
    suffix: str = option(".letter", "The end of the names of letters.")
