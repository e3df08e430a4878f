"""Where a day's users lie: files below a folder, one file, or the same on S3; found, listed and digested.

A path with `{day}` in it is a template of a file or a folder; any other is the root of a hive table, with the day
in `<hive_key>=YYYY-MM-DD/` below it. What lies beside the data is never read: names that begin with `_` or `.`
(markers, checksums, `_temporary/`), other suffixes, empty files. Credentials for S3 come from the environment. A table
in a database is another kind of source: `query.py` copies a day's rows into such a file.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.fs as pafs

from profile_assets.errors import SourceError, StorageError
from profile_assets.storage.records import digest_of
from profile_assets.users.path_keys import keys_in
from profile_assets.users.source_settings import CsvSettings as CsvSettings
from profile_assets.users.source_settings import Format as Format
from profile_assets.users.source_settings import SourceSettings as SourceSettings
from profile_assets.users.source_settings import SqlSettings as SqlSettings
from profile_assets.users.source_settings import parse_ready as parse_ready

_SUFFIXES: dict[str, tuple[str, ...]] = {
    "parquet": (".parquet", ".parq", ".pq"),
    "csv": (".csv", ".tsv", ".txt"),
    "ndjson": (".ndjson", ".jsonl", ".json"),
}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
_S3 = "s3://"
_HASH_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One data file. `name` is its path within the day; `modified_ns` only tells whether it moved under a reader.

    `keys` are those of its folders (`country=de/`). A copy of a query's rows is read at `opened_at`; its `path` is then
    what people know it by.
    """

    name: str
    path: str
    size_bytes: int
    modified_ns: int
    keys: tuple[tuple[str, str | None], ...] = ()
    opened_at: str | None = None


@dataclass(frozen=True, kw_only=True)
class SourceDay:
    """What a day's source is made of. `digest` covers names, sizes, contents and how they are read, not times."""

    day: dt.date
    files: tuple[SourceFile, ...]
    ignored: tuple[str, ...]
    digest: str

    @property
    def listing_digest(self) -> str:
        """Of names, sizes and times, not of contents."""
        return Listing(files=self.files, beside=()).digest


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What lies in a day's folder, unread: its data files, and the names of everything `beside` them."""

    files: tuple[SourceFile, ...]
    beside: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Of names, sizes and times: the same while nothing moves."""
        return digest_of([[file.name, file.size_bytes, file.modified_ns] for file in self.files])


def day_path(settings: SourceSettings, day: dt.date) -> str:
    """The file or folder of a day."""
    if "{day}" in settings.path:
        return settings.path.replace("{day}", day.isoformat())
    return f"{settings.path.rstrip('/')}/{settings.hive_key}={day.isoformat()}"


def filesystem(settings: SourceSettings) -> pafs.FileSystem:
    """The file system that the paths of `SourceFile` belong to."""
    if not settings.path.startswith(_S3):
        return pafs.LocalFileSystem()
    return pafs.S3FileSystem(endpoint_override=settings.s3_endpoint)


def find_day(settings: SourceSettings, day: dt.date, *, now: dt.datetime | None = None) -> SourceDay:
    """The day's files, in the order of their names, with the digest of what they hold.

    Raises SourceError where there are none, or where the day is not ready at `now` (aware; default: this moment).
    """
    listing = list_day(settings, day)
    where = day_path(settings, day)
    if why := not_ready(settings, listing, now or dt.datetime.now(dt.UTC)):
        raise SourceError(
            f"the source of {day}, {where}, {why}",
            remedy="wait until its writer has finished, or change source.ready in the profile",
        )
    files, ignored = listing.files, listing.beside
    if not files:
        beside = f" (only {', '.join(ignored[:5])})" if ignored else ""
        raise SourceError(
            f"the source of {day}, {where}, holds no {settings.format} data{beside}",
            remedy="write that day's files, or correct the source's path and format in the profile",
        )
    return SourceDay(day=day, files=files, ignored=ignored, digest=_digest(settings, files))


def not_ready(settings: SourceSettings, listing: Listing, now: dt.datetime) -> str | None:
    """Why the writer of these files may not have finished, in words that follow "the source"; None where it has.

    A time in the future says nothing of how long a file has been still: it is not waited for.
    """
    if settings.success_marker and settings.success_marker not in listing.beside:
        return f"has no {settings.success_marker}"
    age_s = now.timestamp() - max((file.modified_ns for file in listing.files), default=0) / 1e9
    if abs(age_s) < settings.stable_for_s:
        return f"changed {max(age_s, 0):.0f} s ago, and must be still for {settings.stable_for_s:.0f} s"
    return None


def require_unchanged(settings: SourceSettings, found: SourceDay) -> None:
    """SourceError where files came, went or were rewritten since the day was found. A copy of a query's rows cannot."""
    if settings.sql is not None:
        return
    files = list_day(settings, found.day).files
    changed = sorted({file.path for file in set(files) ^ set(found.files)})
    if changed:
        raise SourceError(
            f"the source of {found.day} changed while it was read: {', '.join(changed[:5])}",
            remedy="let its writer finish, then run the day again",
        )


@contextlib.contextmanager
def source_errors(path: str) -> Iterator[None]:
    """What a file system or Arrow says of a source, as SourceError; as StorageError where the object store failed."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeError) as error:
        text = str(error)
        if isinstance(error, OSError) and "AWS Error" in text and "NO_SUCH_" not in text:
            raise StorageError(
                f"{path}: {text}", remedy="check the endpoint, the network and the credentials, then run the day again"
            ) from error
        raise SourceError(
            f"{path} cannot be read: {text}", remedy="write that file again, whole, then run the day again"
        ) from error


def list_day(settings: SourceSettings, day: dt.date) -> Listing:
    """What lies there for a day now; nothing where its folder does not exist."""
    root = _plain_path(settings, day)
    with source_errors(root):
        system = filesystem(settings)
        info = system.get_file_info(root)
        if info.type == pafs.FileType.File:
            return Listing(files=(_file(settings, info, info.base_name),) if info.size else (), beside=())
        if info.type == pafs.FileType.NotFound:
            return Listing(files=(), beside=())
        entries = [
            entry
            for entry in system.get_file_info(pafs.FileSelector(root, recursive=True))
            if entry.type == pafs.FileType.File
        ]
    named = sorted((str(PurePosixPath(entry.path).relative_to(root)), entry) for entry in entries)
    is_data = {name: _is_data(name, entry.size, settings.format) for name, entry in named}
    return Listing(
        files=tuple(_file(settings, entry, name) for name, entry in named if is_data[name]),
        beside=tuple(name for name, _ in named if not is_data[name]),
    )


def _plain_path(settings: SourceSettings, day: dt.date) -> str:
    path = day_path(settings, day)
    if path.startswith(_S3):
        return path.removeprefix(_S3).rstrip("/")
    if not PurePosixPath(path).is_absolute():
        raise SourceError(
            f"the source's path {settings.path!r} is not absolute", remedy="write an absolute path or s3://bucket/key"
        )
    return os.path.normpath(path)


def _file(settings: SourceSettings, info: pafs.FileInfo, name: str) -> SourceFile:
    root = settings.path.partition("{day}")[0].rpartition("/")[0] if "{day}" in settings.path else settings.path
    below = info.path.removeprefix(os.path.normpath(root.removeprefix(_S3)))
    return SourceFile(
        name=name,
        path=info.path,
        size_bytes=info.size,
        modified_ns=info.mtime_ns or 0,
        keys=keys_in(PurePosixPath(below).parts[:-1]),
    )


def _is_data(name: str, size_bytes: int, file_format: str) -> bool:
    parts = PurePosixPath(name).parts
    if not size_bytes or any(part.startswith(("_", ".")) for part in parts):
        return False
    last = parts[-1].lower()
    if file_format != "parquet":
        last = next((last.removesuffix(suffix) for suffix in COMPRESSED if last.endswith(suffix)), last)
    return "." not in last or last.endswith(_SUFFIXES[file_format])


def _digest(settings: SourceSettings, files: tuple[SourceFile, ...]) -> str:
    system = filesystem(settings)
    contents = [[file.name, file.size_bytes, _content(system, file)] for file in files]
    return digest_of([settings.format, asdict(settings.csv), contents])


def _content(system: pafs.FileSystem, file: SourceFile) -> str:
    """An object's ETag where the store gives one, else sha256 of the bytes."""
    with source_errors(file.path), system.open_input_stream(file.path, compression=None) as stream:
        if tag := (stream.metadata() or {}).get("ETag"):
            return str(tag.decode())
        digest = hashlib.sha256()
        while block := stream.read(_HASH_BLOCK_BYTES):
            digest.update(block)
        return digest.hexdigest()
