"""The embedded store where the disk fails it: a file that was cut, a disk that is full."""

from __future__ import annotations

import contextlib
import datetime as dt
import random
import subprocess
import sys

import pytest

from profile_assets.errors import CorruptError
from profile_assets.feature_store.online import open_online
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.storage.published import read_record

IDS = [f"user-{n}" for n in range(2000)]
NOW = dt.datetime(2026, 1, 6, 2, 30, tzinfo=dt.UTC)
SQLITE = ExportSettings(online=OnlineSettings())

FULL_DISK = """
import datetime as dt, resource, signal, sys
from pathlib import Path
from profile_assets.errors import StorageError
from profile_assets.feature_store.online import open_online
from profile_assets.feature_store.publish import publish
from profile_assets.feature_store.settings import ExportSettings, OnlineSettings
from profile_assets.storage.layout import Layout

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (48_000, 48_000))
try:
    publish(
        Layout(root=Path(sys.argv[1]), name="purchase_30d"),
        dt.date(2026, 1, 5),
        time_zone="Europe/Berlin",
        clock=lambda: dt.datetime(2026, 1, 6, 3, tzinfo=dt.UTC),
        export=ExportSettings(online=OnlineSettings()),
    )
except StorageError as error:
    print(error)
"""


def read_all(layout):
    _, records = open_online(layout, SQLITE.online).read(IDS)
    return {user: records[user].score for user in IDS}


@pytest.mark.parametrize("kept_bytes", [-1, -5000, -20000, 8, 0])
def test_a_live_file_that_was_cut_is_an_error_and_is_built_anew(pipeline, layout, day, kept_bytes):
    pipeline.run(day, IDS)
    live = pipeline.publish_all(day, export=SQLITE).brought.version
    path = layout.online / "versions" / f"{live.id}.sqlite"
    path.write_bytes(path.read_bytes()[:kept_bytes])
    with pytest.raises(CorruptError):
        read_all(layout)
    again = pipeline.publish_all(day, export=SQLITE)
    assert (again.brought.is_built, again.differing) == (True, ())
    assert len(read_all(layout)) == len(IDS)


def test_a_flipped_bit_is_an_error_and_never_another_score(pipeline, layout, day):
    pipeline.run(day, IDS)
    live = pipeline.publish_all(day, export=SQLITE).brought.version
    wanted, path = read_all(layout), layout.online / "versions" / f"{live.id}.sqlite"
    whole = path.read_bytes()
    draws = random.Random(5)
    for _ in range(40):
        damaged = bytearray(whole)
        damaged[draws.randrange(len(whole))] ^= 1 << draws.randrange(8)
        path.write_bytes(damaged)
        with contextlib.suppress(CorruptError):
            assert read_all(layout) == wanted


def test_a_full_disk_leaves_the_lookups_pending_and_the_old_version_live(pipeline, layout, day):
    """The child may write no file beyond 48 kB, which is enough for the table and not for the lookups."""
    before = day - dt.timedelta(days=1)
    for one in (before, day):
        pipeline.run(one, IDS, values=[0.5] * len(IDS))
    live = pipeline.publish_all(before, export=SQLITE).brought.version
    command = [sys.executable, "-c", FULL_DISK, str(layout.root)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "online it is pending" in told
    assert {name: target.state for name, target in read_record(layout, day).targets.items()} == {
        "offline": "done",
        "online": "pending",
    }
    store = open_online(layout, SQLITE.online)
    assert store.live() == live
    assert pipeline.publish_all(day, export=SQLITE).brought.is_live


def test_a_pointer_that_cannot_be_read_is_named(pipeline, layout, day):
    pipeline.run(day, IDS)
    pipeline.publish(day, export=SQLITE)
    (layout.online / "live.json").write_text('{"format": 1}')
    with pytest.raises(CorruptError, match=r"live\.json lacks or bends"):
        open_online(layout, SQLITE.online).live()
