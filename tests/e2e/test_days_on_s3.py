"""Days whose truth lies on S3: machines come and go, are killed at each upload, and write the same day at once."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pytest

from profile_assets.profile import Deployment, load_deployment
from profile_assets.storage.layout import ROWS
from profile_assets.storage.stages import require
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
        """Run the newer day on machines side by side, each with a copy of `start` of its own, or on what is there by those names."""
        asked = []
        for name in names:
            prefix = name if is_there else f"killed-{uuid.uuid4()}"
            if not is_there:
                self.copy("start", prefix)
            asked.append((prefix, self.machine(), {**self.request(prefix), **when(name)}))
        answers = self.small.run_all([(root, request) for _, root, request in asked])
        return [(prefix, root, answer) for (prefix, root, _), answer in zip(asked, answers, strict=True)]

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
        """What any reader of S3 gets of a day."""
        system = pafs.S3FileSystem(endpoint_override=self.endpoint)
        table = f"{self.bucket}/{prefix}/small/feature_store/offline"
        found = pads.dataset(table, filesystem=system, partitioning="hive")
        return found.to_table(filter=pads.field("ds") == day.isoformat()).drop_columns(["published_at", "ds"])


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
            assert (answer["status"], answer["steps"][-1][1]) == (-signal.SIGKILL, steps[step])
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


def pairs(steps: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(steps), 2):
        yield steps[start : start + 2]


def digests(shelf: Shelf, root: Path, prefix: str) -> dict[str, str]:
    """What the stages say of the day, every file of them looked at."""
    deployment = shelf.deployment(root, prefix)
    deployment.pull(DAY)
    assert verify_day(deployment.layout, DAY).is_right
    return {stage: require(deployment.layout, stage, DAY).digest for stage in ROWS}
