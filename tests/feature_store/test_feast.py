"""Feast, in an environment of its own, reads the table and serves it: the documented example, value by value.

The environment is built once, below the user's cache, and used again.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from profile_assets.feature_store.join import point_in_time
from profile_assets.feature_store.read import read_day
from profile_assets.storage.layout import Layout

PAGE = Path(__file__).parents[2] / "docs" / "reading.md"
FEAST = "feast==0.67"
HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "profile_assets" / FEAST.replace("==", "-")
IDS = ["007", "NA", "Zoë", "9007199254740993"]
DAYS = [dt.date(2026, 1, 4), dt.date(2026, 1, 5)]
MOMENTS = [("007", "2026-01-05T12:00Z"), ("007", "2026-01-06T12:00Z"), ("Zoë", "2026-01-06T12:00Z"),
           ("9007199254740993", "2026-01-08T22:59Z"), ("NA", "2026-01-04T23:00Z")]  # fmt: skip


@pytest.fixture(scope="module")
def feast_python() -> Path:
    """The interpreter of the environment."""
    python, is_whole = HOME / "bin" / "python", HOME / "whole"
    if not is_whole.exists():
        if os.environ.get("REQUIRE_SERVICES") != "1":
            pytest.skip(f"no environment for Feast at {HOME}; REQUIRE_SERVICES=1 builds it")
        shutil.rmtree(HOME, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
        subprocess.run([*installer(python), FEAST], check=True, env=environment())
        is_whole.touch()
    return python


def installer(python: Path) -> list[str]:
    """uv where there is one, for it takes seconds; else pip."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", str(python)]
    return [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def environment() -> dict[str, str]:
    links = os.environ.get("PIP_FIND_LINKS")
    return {**os.environ, "UV_FIND_LINKS": links} if links else dict(os.environ)


@pytest.fixture
def layout(tmp_path):
    return Layout(root=tmp_path / "data", name="purchase_30d")


@pytest.mark.feast
def test_feast_joins_materializes_and_serves_what_the_table_says(pipeline, layout, tmp_path, feast_python):
    for d, day in enumerate(DAYS):
        pipeline.run(day, IDS, values=[d / 2 + n / 8 for n in range(len(IDS))], bundle=f"b-{d}")
        pipeline.publish(day, now=dt.datetime(2026, 1, 5 + d, 2, tzinfo=dt.UTC))
    answer = run_example(feast_python, tmp_path)

    moments = [dt.datetime.fromisoformat(at) for _, at in MOMENTS]
    asked = pa.table({"user_id": [user for user, _ in MOMENTS], "event_timestamp": pa.array(moments)})
    ours = point_in_time(layout, asked, max_age=dt.timedelta(days=3)).to_pylist()
    wanted = {(row["user_id"], row["event_timestamp"]): (row["score"], row["bundle_id"]) for row in ours}
    assert None not in {score for score, _ in wanted.values()}
    assert {
        (user, dt.datetime.fromisoformat(at)): (score, bundle) for user, at, score, bundle in answer["history"]
    } == wanted
    newest = read_day(layout, DAYS[1]).to_pydict()
    scores = dict(zip(newest["user_id"], newest["score"], strict=True))
    assert answer["online"] == {**scores, "nobody": None}


def run_example(python: Path, folder: Path) -> dict:
    """The page's example with the moments and users of this test, run by Feast's own interpreter."""
    (example,) = re.findall(r"^## Feast\n.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    code, changes = re.subn(
        r"^moments = pd\.DataFrame\(.*?^\)$",
        f"moments = pd.DataFrame({MOMENTS!r}, columns=['user_id', 'event_timestamp'])\n"
        "moments['event_timestamp'] = pd.to_datetime(moments['event_timestamp'])",
        example,
        flags=re.M | re.S,
    )
    code, more = re.subn(
        r'entity_rows=\[\{"user_id": "007"\}\]', f"entity_rows={[{'user_id': u} for u in [*IDS, 'nobody']]!r}", code
    )
    assert (changes, more) == (1, 1)
    (folder / "feast").mkdir()
    code += """
import json
columns = ["user_id", "event_timestamp", "score", "bundle_id"]
rows = [[u, t.isoformat(), s, b] for u, t, s, b in history[columns].itertuples(index=False)]
print("answer:" + json.dumps({"history": rows, "online": dict(zip(online["user_id"], online["score"]))}))
"""
    done = subprocess.run(
        [str(python), "-c", code], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "FEAST_USAGE": "False", "PYTHONPATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.split("answer:")[1])
