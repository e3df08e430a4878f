"""The bytes of a CSV on their way to Arrow's reader, watched and made whole.

Arrow takes a header without a line end for an empty file, an unclosed quote for a very long value, and cannot tell of
a broken row whose bytes are not UTF-8. So quotes are counted, the last line gets its end, and a byte that is no
UTF-8 becomes a mark that no text holds: a character that Unicode keeps for no use (U+FDD0) and the byte's two digits.
"""

from __future__ import annotations

import codecs
import io
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profile_assets.users.batches import BrokenRow

_MARK = "\ufdd0"
_STRAY_BYTE = re.compile("[\udc80-\udcff]")  # how Python's decoder hands on a byte that is no UTF-8


class WatchedCsv(io.RawIOBase):
    """A readable stream; `quotes` and `has_line_end` tell of what was read so far."""

    def __init__(self, stream: pa.NativeFile) -> None:
        super().__init__()
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._ready = b""
        self._is_over = False
        self.quotes = 0
        self.has_line_end = True
        self.has_marks = False

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; none only at the end."""
        while len(self._ready) < size and not self._is_over:
            self._fill(size)
        out, self._ready = self._ready[:size], self._ready[size:]
        return out

    def _fill(self, size: int) -> None:
        data: bytes = self._stream.read(size)
        self._is_over = len(data) < size
        if data:
            self.quotes += data.count(b'"')
            self.has_line_end = data.endswith((b"\n", b"\r"))
        self._ready += self._as_utf8(data)
        if self._is_over and not self.has_line_end:
            self._ready += b"\n"

    def _as_utf8(self, data: bytes) -> bytes:
        text = self._decoder.decode(data, final=self._is_over)
        try:
            return text.encode()
        except UnicodeEncodeError:
            self.has_marks = True
            return _STRAY_BYTE.sub(lambda byte: f"{_MARK}{ord(byte[0]) - 0xDC00:02x}", text).encode()

    def close(self) -> None:
        self._stream.close()
        super().close()


def has_mark(text: str) -> bool:
    """Whether some byte of it was no UTF-8."""
    return _MARK in text


def unmarked(text: str) -> str:
    """A text as people read it: `caf\\xe9`."""
    return text.replace(_MARK, "\\x")


def split_off_marked(
    rows: pa.RecordBatch, numbers: np.ndarray, stream: WatchedCsv
) -> tuple[pa.RecordBatch, np.ndarray, tuple[BrokenRow, ...]]:
    """The rows without a mark, their numbers, and the others. `numbers`: int64 (rows,)."""
    if not stream.has_marks:
        return rows, numbers, ()
    broken: dict[int, BrokenRow] = {}
    for name, array in zip(rows.schema.names, rows.columns, strict=True):
        for place in np.flatnonzero(pc.match_substring(array, _MARK).to_numpy(zero_copy_only=False)).tolist():
            row = BrokenRow(
                number=int(numbers[place]), reason=f"{name!r} is not UTF-8", text=unmarked(array[place].as_py())
            )
            broken.setdefault(place, row)
    good = np.ones(rows.num_rows, dtype=bool)
    good[list(broken)] = False
    return rows.filter(pa.array(good)), numbers[good], tuple(broken[place] for place in sorted(broken))
