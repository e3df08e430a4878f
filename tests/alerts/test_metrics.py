"""The textfile as Prometheus reads it."""

from __future__ import annotations

import datetime as dt
import re

from profile_assets.alerts.book import FinishedRun
from profile_assets.alerts.watch import Runs, look
from profile_assets.storage.outcomes import Outcome

FIRST = dt.date(2026, 3, 1)
ONE_DAY = dt.timedelta(days=1)
LINE = re.compile(r'profile_assets_([a-z_]+)\{profile="risk"((?:,[a-z]+="[^"]*")*)\} (-?[0-9.e+]+)')


def numbers(text: str) -> dict[str, float]:
    """Every sample by its name and labels; every line must be one, or a comment that comes before its samples."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP profile_assets_[a-z_]+ .+|TYPE profile_assets_[a-z_]+ (gauge|counter))", line)
            continue
        match = LINE.fullmatch(line)
        assert match, line
        assert match[1] + match[2] not in found
        found[match[1] + match[2]] = float(match[3])
    return found


def test_the_numbers_of_a_stale_table(days, watch, at, endpoint):
    days.publish(FIRST, rows=23570, online="done")
    drift = Outcome(check="feature_drift", result="fail", severity="warn", observed=0.4, limit=0.2, detail="PSI")
    days.judge(FIRST, drift, stage="user_scores")
    now = at(FIRST + 3 * ONE_DAY, 5)
    environment = {"ALERTS": f"json://127.0.0.1:{endpoint.port}/s3cr3tt0k3n"}
    runs = Runs(last=FinishedRun(day=str(FIRST), seconds=12.5, is_success=True))
    look(watch(has_lookups=True), now=now, environment=environment, runs=runs)
    text = days.layout.metrics.read_text()
    found = numbers(text)
    assert "s3cr3tt0k3n" not in text
    assert {
        'stale,target="offline"': 1,
        'missing_days,target="offline"': 2,
        'missing_days,target="online"': 2,
        "newest_due_day_timestamp_seconds": at(FIRST + 3 * ONE_DAY, 0).timestamp(),
        'newest_published_day_timestamp_seconds,target="offline"': at(FIRST + ONE_DAY, 0).timestamp(),
        "late_sources": 2,
        "published_rows": 23570,
        "run_seconds": 12.5,
        "run_success": 1,
        'checks,stage="user_scores",result="warn"': 1,
        'open_alerts,severity="error"': 1,
        'alert_deliveries_total,channel="ALERTS",result="sent"': 2,
        "look_timestamp_seconds": now.timestamp(),
    }.items() <= found.items()


def test_failures_of_channels_are_counted(days, watch, at, endpoint):
    endpoint.reply.status = 404
    environment = {"ALERTS": f"json://127.0.0.1:{endpoint.port}"}
    look(watch(), now=at(FIRST + ONE_DAY, 5), environment=environment)
    found = numbers(days.layout.metrics.read_text())
    assert found['alert_deliveries_total,channel="ALERTS",result="failed"'] == 1
    assert found["alerts_waiting"] == 1


def test_the_file_may_lie_elsewhere_and_nothing_lies_beside_it(watch, at, tmp_path):
    path = tmp_path / "collector" / "risk.prom"
    for _ in range(2):
        look(watch(metrics_file=path), now=at(FIRST, 5), environment={})
    assert [one.name for one in path.parent.iterdir()] == ["risk.prom"]
    assert 'stale{profile="risk",target="offline"} 0' in path.read_text()
