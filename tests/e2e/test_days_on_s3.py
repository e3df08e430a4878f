"""Days whose truth lies on S3: machines come and go, are killed at each upload, and write the same day at once."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from profile_assets.errors import CorruptError, DataError
from profile_assets.feature_store.online_sqlite import SqliteStore
from profile_assets.feature_store.read import read_day
from profile_assets.feature_store.withdraw import withdraw
from profile_assets.profile import Deployment, load_deployment
from profile_assets.storage import atomic
from profile_assets.storage.carried import remove_data_carried
from profile_assets.storage.layout import ROWS
from profile_assets.storage.published import published_days
from profile_assets.storage.pulling import pull
from profile_assets.storage.stages import Staged, commit, current, require
from profile_assets.upkeep.prune import prune
from profile_assets.upkeep.verify import verify_day
from tests.e2e.small_days import BEFORE, DAY, NEW, OLD, put_model

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


@dataclass
class Shelf:
    """One bucket, and machines that work on what lies below a prefix of it."""

    small: Any
    endpoint: str
    bucket: str
    folder: Path
    machines: int = field(default=0)

    @property
    def client(self) -> Any:
        return boto3.client("s3", endpoint_url=self.endpoint)

    def url(self, prefix: str) -> str:
        return f"s3://{self.bucket}/{prefix}"

    def machine(self, newer: pa.Table = NEW) -> Path:
        """A machine that has a profile, the sources, and nothing else."""
        self.machines += 1
        root = self.folder / f"machine-{self.machines}"
        root.mkdir(parents=True)
        for name in ("profile-1.toml", "profile-2.toml"):
            (root / name).write_bytes((self.small.start / name).read_bytes())
        self.small.put_source(root, BEFORE, OLD)
        self.small.put_source(root, DAY, newer)
        return root

    def deployment(self, root: Path, prefix: str) -> Deployment:
        environment = {"PROFILE_DATA": self.url(prefix), "PROFILE_WORK": str(root)}
        return load_deployment(root / "profile-1.toml", environment=environment)

    def run(self, root: Path, prefix: str, **when: Any) -> dict[str, Any]:
        return dict(self.small.run(root, **self.request(prefix), **when))

    def run_all(
        self, names: Sequence[Any], when: Callable[[Any], dict[str, Any]], *, is_there: bool = False
    ) -> list[tuple[str, Path, dict[str, Any]]]:
        """Run the newer day on machines side by side: each below a copy of `start`, or below what is there so named."""
        asked = []
        for name in names:
            prefix = name if is_there else f"killed-{uuid.uuid4()}"
            if not is_there:
                self.copy("start", prefix)
            asked.append((prefix, self.machine(), {**self.request(prefix), **when(name)}))
        answers = self.small.run_all([(root, request) for _, root, request in asked])
        return [(prefix, root, answer) for (prefix, root, _), answer in zip(asked, answers, strict=True)]

    @contextlib.contextmanager
    def reading(self, prefix: str) -> Iterator[list[pa.Table]]:
        """Read the newer day over and over; what was seen, each once."""
        seen, is_over = [self.rows(prefix)], threading.Event()

        def loop() -> None:
            while not is_over.is_set():
                if not (found := self.rows(prefix)).equals(seen[-1]):
                    seen.append(found)

        with ThreadPoolExecutor(max_workers=1) as pool:
            looking = pool.submit(loop)
            try:
                yield seen
            finally:
                is_over.set()
            looking.result()

    def command(self, root: Path, prefix: str, *words: str) -> str:
        """A command of the command line on a machine; what it says."""
        instance = Path(__file__).parents[2] / "dagster.yaml"
        (root / "dagster.yaml").write_bytes(instance.read_bytes())
        asked = self.request(prefix)
        environment = {**os.environ, **asked["environment"], "PROFILE_DATA": asked["remote"], "PROFILE_WORK": str(root)}
        environment |= {"PROFILE_CONFIG": str(root / "profile-1.toml"), "COLUMNS": "160"}
        command = [sys.executable, "-m", "profile_assets.cli", *words]
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def request(self, prefix: str) -> dict[str, Any]:
        return {"remote": self.url(prefix), "environment": {**KEYS, "AWS_ENDPOINT_URL_S3": self.endpoint}}

    def copy(self, prefix: str, to: str) -> None:
        for key in self.keys(prefix):
            source = {"Bucket": self.bucket, "Key": key}
            self.client.copy_object(Bucket=self.bucket, Key=to + key.removeprefix(prefix), CopySource=source)

    def keys(self, prefix: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{prefix}/")
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

    def rows(self, prefix: str, *, day: Any = DAY) -> pa.Table:
        """What a reader of S3 gets of a day that it takes in one request."""
        key = f"{prefix}/small/feature_store/offline/ds={day}/part-00000.parquet"
        body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return pq.read_table(pa.BufferReader(body)).replace_schema_metadata().drop_columns(["published_at"])

    def table(self, prefix: str) -> pads.Dataset:
        """The table as any reader opens it."""
        system = pafs.S3FileSystem(endpoint_override=self.endpoint)
        place = f"{self.bucket}/{prefix}/small/feature_store/offline"
        return pads.dataset(place, filesystem=system, partitioning="hive")


@pytest.fixture(scope="module")
def shelf(small: Any, s3_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """With two days of the small score published below `start`, both from what their source was before."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL_S3": s3_server}.items():
            environment.setenv(name, value)
        shelf = Shelf(small, s3_server, f"shelf-{uuid.uuid4()}", tmp_path_factory.mktemp("machines"))
        shelf.client.create_bucket(Bucket=shelf.bucket)
        first = shelf.machine(newer=OLD)
        put_model(shelf.deployment(first, "start").layout)
        for day in (BEFORE, DAY):
            assert shelf.run(first, "start", day=day)["status"] == 0
        yield shelf


def is_up(step: str) -> bool:
    """Where a machine is to be killed: once an upload is complete, and before those that others take for the truth."""
    commits = ("/manifest.json", "/part-00000.parquet", "/publish/2026-01-05.json")
    if "_probe" in step:  # whether the server knows conditions; no part of a day
        return False
    return step.startswith("was put ") or (step.startswith("put ") and step.endswith(commits))


@pytest.mark.timeout(600)
def test_a_machine_killed_at_any_upload_is_followed_by_another_and_readers_see_a_whole_day(
    shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    old = shelf.rows("start")
    shelf.copy("start", "reference")
    reference = shelf.machine()
    dry = shelf.run(reference, "reference")
    new, wanted = shelf.rows("reference"), digests(shelf, reference, "reference")
    steps = {number: what for number, (_, what) in enumerate(dry["steps"], start=1) if is_up(what)}
    assert (dry["status"], len(steps) > 20, new.equals(old)) == (0, True, False)
    told = []
    for some in pairs(list(steps)):
        died = shelf.run_all(some, lambda step: {"step": step})
        seen = ["old" if shelf.rows(prefix).equals(old) else "new" for prefix, _, _ in died]
        for (prefix, _, answer), step, where in zip(died, some, seen, strict=True):
            assert (answer["status"], alike(answer["steps"][-1][1])) == (-signal.SIGKILL, alike(steps[step]))
            assert where == "old" or shelf.rows(prefix).equals(new)
        again = shelf.run_all([prefix for prefix, _, _ in died], lambda _: {}, is_there=True)
        for (prefix, root, answer), step, where in zip(again, some, seen, strict=True):
            assert (answer["status"], answer["error"]) == (0, None)
            assert shelf.rows(prefix).equals(new)
            assert digests(shelf, root, prefix) == wanted
            told.append(f"{steps[step]:78} readers saw the {where} day; another machine: the same")
    with capsys.disabled():
        print("\n" + "\n".join(told))
    assert sum("saw the new day" in line for line in told) >= 3


@pytest.mark.timeout(300)
def test_two_machines_that_run_the_same_day_at_once_publish_one_of_their_days_whole(shelf: Shelf) -> None:
    old, prefix = shelf.rows("start"), "at-once"
    shelf.copy("start", prefix)
    with shelf.reading(prefix) as seen:
        both = shelf.run_all([prefix, prefix], lambda _: {}, is_there=True)
        for _, root, answer in both:
            refused = answer["error"] is not None and answer["error"][0] == "LockedError"
            assert answer["status"] == 0 or refused, answer
            if refused:  # as the retry would
                assert shelf.run(root, prefix)["status"] == 0
    new = shelf.rows(prefix)
    assert all(one.equals(old) or one.equals(new) for one in seen)
    assert new.num_rows == NEW.num_rows
    assert digests(shelf, both[0][1], prefix) == digests(shelf, both[1][1], prefix)


def test_records_come_at_once_and_rows_when_they_are_asked_for(shelf: Shelf) -> None:
    root = shelf.machine()
    deployment = shelf.deployment(root, "start")
    layout = deployment.layout
    deployment.pull()
    assert deployment.watch.judge(dt.datetime(2026, 1, 6, 5, tzinfo=dt.UTC)).standing.days == (BEFORE, DAY)
    assert published_days(layout) == [BEFORE, DAY]
    assert current(layout, "user_scores", DAY) is not None
    assert [path.name for path in layout.home.rglob("*.parquet") if path.name.startswith(("shard", "part"))] == []
    assert read_day(layout, BEFORE).num_rows == OLD.num_rows
    assert layout.offline_part(BEFORE).exists()
    assert not layout.offline_part(DAY).exists()
    require(layout, "user_shards", DAY)
    assert len(list(layout.stage("user_shards", DAY).glob("shard-*"))) == 2


def test_what_is_damaged_here_is_fetched_again(shelf: Shelf) -> None:
    root = shelf.machine()
    deployment = shelf.deployment(root, "start")
    deployment.pull(DAY)
    shard = next(deployment.layout.stage("user_shards", DAY).glob("shard-00*"))
    os.truncate(shard, 8)
    require(deployment.layout, "user_shards", DAY)
    assert verify_day(deployment.layout, DAY, time_zone=deployment.profile.time_zone).is_right


def test_an_incremental_day_carries_scores_that_another_machine_made(shelf: Shelf) -> None:
    roots = [shelf.machine(newer=OLD) for _ in range(2)]
    for root in roots:
        profile = (root / "profile-1.toml").read_text()
        (root / "profile-1.toml").write_text(profile.replace("[scoring]", '[scoring]\nmode = "incremental"'))
    put_model(shelf.deployment(roots[0], "carried").layout)
    for root, day in zip(roots, (BEFORE, DAY), strict=True):
        assert shelf.run(root, "carried", day=day)["status"] == 0
    done = current(shelf.deployment(roots[1], "carried").layout, "user_scores", DAY)
    assert done is not None
    assert done.facts["carrying"]["from"] == BEFORE.isoformat()
    assert done.facts["carrying"]["carried"] == OLD.num_rows


def test_what_one_machine_takes_back_or_prunes_is_gone_on_the_others(shelf: Shelf) -> None:
    shelf.copy("start", "aged")
    here, there = (shelf.deployment(shelf.machine(), "aged") for _ in range(2))
    for machine in (here, there):
        machine.pull(BEFORE, DAY)
    withdraw(here.layout, DAY, why="a test", by="tests", now=dt.datetime.now(dt.UTC))
    now = dt.datetime.now(dt.UTC)
    done = prune(here.layout, here.retention, today=dt.date(2026, 3, 1), now=now + dt.timedelta(days=2), busy={})
    assert {(one.stage, one.day) for one in done.removals} >= {(stage, DAY) for stage in ROWS}
    assert published_days(there.layout) == [BEFORE, DAY]
    there.pull(DAY)
    assert published_days(there.layout) == [BEFORE]
    assert not there.layout.offline_part(DAY).exists()
    for stage in ROWS:
        names = {path.name for path in there.layout.stage(stage, DAY).iterdir()}
        assert names == {"manifest.json", "pruned.json"}
        assert {key.rpartition("/")[2] for key in shelf.keys(f"aged/small/{stage}/day={DAY}")} == names


def test_a_pruning_that_died_is_taken_back_with_what_it_removed_on_s3(shelf: Shelf) -> None:
    shelf.copy("start", "half-pruned")
    layouts = []
    for _ in range(2):
        deployment = shelf.deployment(shelf.machine(), "half-pruned")
        deployment.pull(DAY)
        layouts.append(deployment.layout)
    here, there = layouts
    folder, raw = here.stage("raw_users", DAY), current(here, "raw_users", DAY)
    assert raw is not None
    mark = {"format": 1, "at": "2026-03-01T00:00:00+00:00"}
    atomic.write_json(folder / "pruned.json", mark, staging=here.scratch("records"))
    remove_data_carried(folder, ("manifest.json", "pruned.json"))  # and dies before it removes anything here
    with pytest.raises(DataError, match="was pruned"):
        require(here, "raw_users", DAY)
    commit(here, DAY, Staged(folder=folder, manifest=raw))
    pull(there, [DAY])
    assert require(there, "raw_users", DAY) == raw


def test_rows_that_were_lost_on_s3_are_named_and_brought_back_by_whoever_has_or_makes_them(shelf: Shelf) -> None:
    for prefix, has_copy in (("lost-kept", True), ("lost-made", False)):
        shelf.copy("start", prefix)
        root = shelf.machine(newer=OLD)
        deployment = shelf.deployment(root, prefix)
        layout = deployment.layout
        deployment.pull(*[DAY] if has_copy else [])
        (key,) = (one for one in shelf.keys(f"{prefix}/small/user_scores/day={DAY}") if "shard-00" in one)
        shelf.client.delete_object(Bucket=shelf.bucket, Key=key)
        deployment.pull(DAY)
        proof = {one.part: one for one in verify_day(layout, DAY, time_zone="Europe/Berlin").findings}
        assert (proof["user_scores"].state, "shard-00" in proof["user_scores"].detail) == ("wrong", True)
        if not has_copy:
            with pytest.raises(CorruptError, match="is gone, and its manifest names it"):
                require(layout, "user_scores", DAY)
        assert shelf.run(root, prefix)["status"] == 0
        assert key in shelf.keys(prefix)
        other = shelf.deployment(shelf.machine(), prefix)
        other.pull(DAY)
        assert verify_day(other.layout, DAY, time_zone="Europe/Berlin").is_right


def test_a_day_that_was_withdrawn_elsewhere_goes_out_of_the_lookups_here(shelf: Shelf) -> None:
    roots = [shelf.machine(newer=OLD) for _ in range(2)]
    shelf.copy("start", "taken-back")
    for root in roots:
        shelf.command(root, "taken-back", "publish", str(DAY))
    lookups = SqliteStore(shelf.deployment(roots[1], "taken-back").layout)
    served = []
    for root in roots:
        shelf.command(root, "taken-back", "withdraw", str(DAY), "--why", "bad")
        live = lookups.live()
        served.append(None if live is None else live.day)
    assert served == [DAY, BEFORE]


def test_the_command_line_works_on_s3_through_dagster(shelf: Shelf) -> None:
    roots = [shelf.machine(newer=OLD) for _ in range(2)]
    put_model(shelf.deployment(roots[0], "commands").layout)
    told = shelf.command(roots[0], "commands", "backfill", str(BEFORE), str(DAY))
    assert f"{DAY}: 40 users published" in told
    shelf.command(roots[1], "commands", "publish", str(DAY))  # the lookups of this machine
    assert "wrong" not in shelf.command(roots[1], "commands", "verify", str(DAY))
    assert shelf.table("commands").count_rows() == 2 * OLD.num_rows


def alike(step: str) -> str:
    """The files of a stage go up side by side, in any order."""
    return re.sub(r"(was )?put (.*)shard-.*", r"put \2shard", step)


def pairs(steps: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(steps), 2):
        yield steps[start : start + 2]


def digests(shelf: Shelf, root: Path, prefix: str) -> dict[str, str]:
    """What the stages say of the day, every file of them looked at."""
    deployment = shelf.deployment(root, prefix)
    deployment.pull(DAY)
    assert verify_day(deployment.layout, DAY, time_zone=deployment.profile.time_zone).is_right
    return {stage: require(deployment.layout, stage, DAY).digest for stage in ROWS}
