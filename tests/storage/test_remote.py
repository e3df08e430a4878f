"""Two working copies of one profile on S3, against a server that speaks its protocol."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from profile_assets.errors import CorruptError, LockedError, ProfileError, StorageError
from profile_assets.models.registry import history, read_pointer
from profile_assets.models.registry_log import Change, append
from profile_assets.storage import atomic
from profile_assets.storage.carried import remove_superseded, superseded
from profile_assets.storage.known_objects import KnownObjects
from profile_assets.storage.layout import Layout
from profile_assets.storage.objects import Objects, s3_client
from profile_assets.storage.parts_there import days_there
from profile_assets.storage.pulling import lock_of, pull
from profile_assets.storage.remote import adopt, is_carried, remote_of

DAY = dt.date(2026, 1, 5)


@pytest.fixture
def url(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_endpoint)
    bucket = f"shelf-{uuid.uuid4()}"
    s3_client().create_bucket(Bucket=bucket)
    return f"s3://{bucket}/team/score"


@pytest.fixture
def copies(tmp_path: Path, url: str) -> tuple[Layout, Layout]:
    made = tuple(Layout(root=tmp_path / name, name="score") for name in ("here", "there"))
    for layout in made:
        adopt(layout.home, url)
    return made[0], made[1]


def write(layout: Layout, value: Any) -> None:
    atomic.write_json(layout.verdict(DAY), value, staging=layout.scratch("records"))


def read(layout: Layout) -> Any:
    return json.loads(layout.verdict(DAY).read_text())


def test_what_is_written_here_is_there_after_a_pull(copies: tuple[Layout, Layout]) -> None:
    here, there = copies
    write(here, {"n": 1})
    assert not there.verdict(DAY).exists()
    pull(there)
    assert read(there) == {"n": 1}
    write(there, {"n": 2})
    pull(here)
    assert read(here) == {"n": 2}


def test_of_two_writers_the_second_is_refused_and_has_changed_nothing(copies: tuple[Layout, Layout]) -> None:
    here, there = copies
    write(here, {"n": 0})
    pull(there)
    write(here, {"n": 1})
    with pytest.raises(LockedError, match="another writer was quicker"):
        write(there, {"n": 2})
    assert read(there) == {"n": 0}
    pull(there)
    assert read(there) == {"n": 1}
    write(there, {"n": 2})


def test_a_record_that_was_never_seen_is_not_written_over(copies: tuple[Layout, Layout]) -> None:
    here, there = copies
    write(here, {"n": 1})
    with pytest.raises(LockedError):
        write(there, {"n": 2})


def test_two_who_write_the_same_do_not_disturb_each_other(copies: tuple[Layout, Layout]) -> None:
    for layout in copies:
        write(layout, {"n": 1})
    write(copies[1], {"n": 2})


def test_an_upload_whose_answer_was_lost_is_not_refused_when_it_is_sent_again(url: str, tmp_path: Path) -> None:
    objects, file = Objects(url, s3_client), tmp_path / "file"
    file.write_text("text")
    etag = objects.put("key", file, expected=None)
    assert objects.put("key", file, expected=None) == etag
    file.write_text("other")
    after = objects.put("key", file, expected=etag)
    assert objects.put("key", file, expected=etag) == after != etag


def test_an_object_that_was_removed_meanwhile_is_not_brought_back(copies: tuple[Layout, Layout]) -> None:
    here, there = copies
    write(here, {"n": 1})
    atomic.write_json(here.publish_record(DAY), {}, staging=here.scratch("records"))
    pull(there)
    atomic.remove_file(here.verdict(DAY))
    with pytest.raises(LockedError, match="removed meanwhile"):
        write(there, {"n": 2})
    pull(there)
    assert not there.verdict(DAY).exists()


def test_what_only_this_machine_can_use_stays_here(copies: tuple[Layout, Layout], url: str) -> None:
    here, there = copies
    for path in (here.online / "live.json", here.alerts / "book.json", here.scratch("x") / "y.json", here.metrics):
        atomic.write_json(path, {}, staging=here.scratch("records"))
    assert Objects(url, s3_client).listed() == {}
    for path in (here.offline_part(DAY), here.publish_record(DAY), here.models / "stable.json", here.quarantine(DAY)):
        assert is_carried(path.relative_to(here.home).as_posix())
    assert remote_of(there.home.parent / "elsewhere.json") is None


def test_bytes_move_and_nothing_else_does(copies: tuple[Layout, Layout]) -> None:
    """A second pull fetches nothing: what is held is known by its ETag."""
    here, there = copies
    write(here, {"n": 1})
    pull(there)
    before = there.verdict(DAY).stat().st_ino
    pull(there)
    assert there.verdict(DAY).stat().st_ino == before


def test_a_copy_that_lost_what_it_knew_fetches_everything_again(copies: tuple[Layout, Layout]) -> None:
    here, _ = copies
    write(here, {"n": 1})
    (here.home / "_remote" / "objects.sqlite").unlink()
    with pytest.raises(LockedError):
        write(here, {"n": 2})
    pull(here)
    write(here, {"n": 2})


def test_a_table_of_known_objects_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "objects.sqlite").write_bytes(b"no database, but long enough to be looked at as one" * 20)
    with pytest.raises(CorruptError, match=r"objects\.sqlite"):
        KnownObjects(tmp_path / "objects.sqlite").all()


def test_the_registrys_log_loses_no_move_of_another_machine(copies: tuple[Layout, Layout]) -> None:
    here, there = copies
    first, second = (
        Change(
            pointer="canary",
            bundle_id=f"b-{'0' * 15}{n}",
            before=None,
            since=f"2026-01-0{n}T00:00:00+00:00",
            by="me",
            why="why",
            action="set",
        )
        for n in (1, 2)
    )
    append(here.registry_log, first, staging=here.scratch("records"))
    with pytest.raises(LockedError):
        append(there.registry_log, second, staging=there.scratch("records"))
    pull(there)
    append(there.registry_log, second, staging=there.scratch("records"))
    pull(here)
    assert history(here) == history(there) == (first, second)
    assert read_pointer(here, "canary") is None


def test_s3_that_is_down_is_a_transient_error_and_leaves_what_is_here(
    copies: tuple[Layout, Layout], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str
) -> None:
    write(copies[0], {"n": 1})
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    cut_off = Layout(root=tmp_path / "third", name="score")
    adopt(cut_off.home, url)
    for act in (pull, lambda layout: write(layout, {"n": 2})):
        with pytest.raises(StorageError, match="see that S3 is up"):
            act(cut_off)
    assert not cut_off.verdict(DAY).exists()


@pytest.mark.usefixtures("url")
def test_a_bucket_that_is_not_there_is_named(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path / "x", name="score")
    adopt(layout.home, "s3://no-such-bucket-at-all/score")
    with pytest.raises(ProfileError, match="no-such-bucket-at-all"):
        pull(layout)


def test_a_folder_is_the_copy_of_one_place_only(copies: tuple[Layout, Layout], tmp_path: Path, url: str) -> None:
    home = copies[0].home
    adopt(home, url)
    for other in ("s3://elsewhere/score", None):
        with pytest.raises(ProfileError, match="is the working copy of"):
            adopt(home, other)
    own = Layout(root=tmp_path / "own", name="score")
    write(own, {"n": 1})
    adopt(own.home, None)
    with pytest.raises(ProfileError, match="holds a profile of its own"):
        adopt(own.home, url)
    assert read(own) == {"n": 1}


def test_rows_that_no_manifest_names_go_after_a_while_and_not_before(copies: tuple[Layout, Layout], url: str) -> None:
    here, _ = copies
    folder = here.staging("raw_users", DAY)
    for content in ("old", "new"):
        atomic.empty_folder(folder)
        (folder / "users.parquet").write_text(content)
        named = {"files": [{"name": "users.parquet", "digest": content * 10}]}
        (folder / "manifest.json").write_text(json.dumps(named))
        atomic.replace_folder(folder, here.stage("raw_users", DAY))
    assert len(Objects(url, s3_client).listed("raw_users/")) == 3
    now = dt.datetime.now(dt.UTC)
    assert superseded(here.home, now - dt.timedelta(days=1)) == {}
    left = superseded(here.home, now + dt.timedelta(days=1))
    assert left == {f"raw_users/day={DAY}/users.{('old' * 10)[:16]}.parquet": 3}


def test_a_pull_leaves_what_somebody_here_has_read_to_write_it(copies: tuple[Layout, Layout]) -> None:
    """Else the ETag would be that of a record which the writer never saw, and the other's write would be lost."""
    here, there = copies
    write(here, {"n": 0})
    pull(there)
    with atomic.locked(there.day_lock("verdict", DAY), what="the verdict"):
        seen = read(there)
        write(here, {"n": 1})
        pull(there)
        assert read(there) == seen
        with pytest.raises(LockedError):
            write(there, {**seen, "added": True})
    pull(there)
    assert read(there) == {"n": 1}


@pytest.mark.parametrize(
    ("key", "lock"),
    [
        ("verdicts/day=2026-01-05.json", "verdict-2026-01-05.lock"),
        ("feature_store/publish/2026-01-05.json", "publish-2026-01-05.lock"),
        ("feature_store/withdrawn/2026-01-05.json", "publish-2026-01-05.lock"),
        ("feature_store/offline/ds=2026-01-05/part-00000.parquet", "publish-2026-01-05.lock"),
        ("raw_users/day=2026-01-05/manifest.json", "raw_users-2026-01-05.lock"),
        ("models/stable.json", "registry.lock"),
        ("models/log.jsonl", "registry.lock"),
        ("models/b-0123456789abcdef/weights.safetensors", None),
        ("measures/day=2026-01-05/user_shards.parquet", None),
    ],
)
def test_each_key_is_left_by_the_lock_of_its_writers(tmp_path: Path, key: str, lock: str | None) -> None:
    found = lock_of(Layout(root=tmp_path, name="score"), key)
    assert (None if found is None else found.name) == lock


def test_what_was_replaced_elsewhere_is_not_removed(copies: tuple[Layout, Layout]) -> None:
    here, there = copies
    write(here, {"n": 1})
    pull(there)
    write(here, {"n": 2})
    with pytest.raises(LockedError, match="another by now"):
        atomic.remove_file(there.verdict(DAY))
    pull(there)
    assert read(there) == {"n": 2}
    atomic.remove_file(there.verdict(DAY))


def test_a_prefix_that_was_emptied_takes_nothing_from_the_copy(copies: tuple[Layout, Layout], url: str) -> None:
    here, _ = copies
    write(here, {"n": 1})
    objects = Objects(url, s3_client)
    objects.remove(objects.listed())
    with pytest.raises(CorruptError, match=r"is empty, and .* is a copy of 1 objects"):
        pull(here)
    assert read(here) == {"n": 1}


def test_keys_that_no_profile_writes_are_left_alone(copies: tuple[Layout, Layout], url: str) -> None:
    here, there = copies
    write(here, {"n": 1})
    objects = Objects(url, s3_client)
    strange = (
        *("_remote/url.json", "alerts/book.json", "../../escaped.json", "verdicts/", "scores/x.parquet"),
        *("feature_store/offline/ds=2026-01-05/_SUCCESS", "feature_store/offline/ds=2026-01-05/", "/", "verdicts//x"),
    )
    for key in strange:
        objects.put(key, b"{}", expected=None)
    pull(there)
    assert read(there) == {"n": 1}
    assert json.loads((there.home / "_remote" / "url.json").read_text())["url"] == url
    assert not (there.home / "../../escaped.json").exists()
    assert days_there(there) == []


def test_a_copy_that_lost_what_it_knew_keeps_nothing_that_is_gone(copies: tuple[Layout, Layout]) -> None:
    here, there = copies
    write(here, {"n": 1})
    atomic.write_json(here.publish_record(DAY), {}, staging=here.scratch("records"))
    pull(there)
    (there.home / "_remote" / "objects.sqlite").unlink()
    atomic.remove_file(here.verdict(DAY))
    pull(there)
    assert not there.verdict(DAY).exists()
    assert there.publish_record(DAY).exists()


def test_rows_that_a_manifest_names_again_are_not_removed(copies: tuple[Layout, Layout], url: str) -> None:
    here, there = copies
    for content in ("old", "new", "old"):
        if content == "old" and here.stage("raw_users", DAY).exists():
            pull(there)
            (key,) = superseded(there.home, dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
        folder = atomic.empty_folder(here.staging("raw_users", DAY))
        (folder / "users.parquet").write_text(content)
        named = {"files": [{"name": "users.parquet", "digest": content * 10}]}
        (folder / "manifest.json").write_text(json.dumps(named))
        atomic.replace_folder(folder, here.stage("raw_users", DAY))
    remove_superseded(there.home / key)
    assert key in Objects(url, s3_client).listed()


@pytest.mark.usefixtures("url")
def test_a_url_that_is_none_is_the_profiles_mistake(tmp_path: Path) -> None:
    for n, wrong in enumerate(("s3://no bucket/x", "s3://x/y")):
        layout = Layout(root=tmp_path / str(n), name="score")
        adopt(layout.home, wrong)
        with pytest.raises(ProfileError):
            pull(layout)


def test_a_server_that_takes_every_upload_is_refused(
    copies: tuple[Layout, Layout], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profile_assets.storage.objects._replacing", lambda _: {})
    with pytest.raises(ProfileError, match="knows no conditional writes"):
        pull(copies[0])
