"""The command line as its users know it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import typer.main

import profile_assets
from profile_assets.cli import app
from profile_assets.profile.loading import default_profile


def test_the_commands_are_these():
    group = typer.main.get_group(app)
    assert sorted(group.commands) == [
        "alert-test",
        "backfill",
        "check",
        "demo",
        "fields",
        "freshness",
        "init",
        "lookup",
        "metrics",
        "models",
        "online",
        "plan",
        "prune",
        "publish",
        "quickstart",
        "reconcile",
        "release",
        "shadow",
        "show",
        "status",
        "train",
        "verify",
        "why",
        "withdraw",
    ]


def test_help_imports_nothing_heavy():
    heavy = {"torch", "dagster", "pandas", "pyarrow", "pydantic", "rich"}
    code = f"import profile_assets.cli, sys; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "profile_assets.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_the_commands_that_remedies_name_can_be_run_as_they_stand():
    group = typer.main.get_group(app)
    named = set()
    for path in sorted(Path(profile_assets.__file__).parent.rglob("*.py")):
        named.update(re.findall(r"`profile-assets ([^`]+)`", path.read_text("utf-8")))
    for command in named - {"..."}:
        words = shlex.split(re.sub(r"\{[^}]*\}|DAY", "2026-01-05", command))
        name, found, rest = group.resolve_command(group.make_context("profile-assets", words), words)
        if rest:  # a command alone is only spoken of
            found.make_context(name, rest)
        assert name != "withdraw" or {"--why", "--undo"} & set(words), command


def test_a_mistake_is_one_clear_message_and_not_a_stack(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text('name = "Risk"\n')
    done = run("check", str(path))
    assert done.returncode == 1
    assert "mistake(s)" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_suite_that_is_not_there_is_told_by_the_check(tmp_path):
    demo = default_profile().read_text("utf-8")
    assert "[quality]" in demo
    path = tmp_path / "p.toml"
    path.write_text(demo.replace("[quality]", '[quality]\nsuite = "suite.json"'), encoding="utf-8")
    done = run("check", str(path), PROFILE_DATA=str(tmp_path))
    assert done.returncode == 1
    assert f"quality.suite: {tmp_path / 'suite.json'} cannot be read" in done.stderr


def test_a_folder_to_begin_in_has_what_dagster_needs_and_a_profile_that_is_well_formed(tmp_path):
    root = Path(__file__).parent.parent
    assert run("init", str(tmp_path / "new")).returncode == 0
    for name in ("dagster.yaml", "workspace.yaml"):
        assert (tmp_path / "new" / name).read_bytes() == (root / name).read_bytes()
    checked = run("check", str(tmp_path / "new" / "profile.toml"), PROFILE_DATA=str(tmp_path))
    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_folder_to_begin_in_replaces_nothing(tmp_path):
    (tmp_path / "profile.toml").write_text("mine")
    done = run("init", str(tmp_path))
    assert done.returncode == 1
    assert "has profile.toml already" in done.stderr
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("profile.toml", "mine")]


def test_nothing_published_says_what_to_do(tmp_path):
    done = run("show", PROFILE_DATA=str(tmp_path))
    assert done.returncode == 1
    assert "nothing is published yet" in done.stderr
    assert "make run" in done.stderr


def test_a_lookup_in_an_empty_store_says_so(tmp_path):
    done = run("lookup", "0", PROFILE_DATA=str(tmp_path))
    assert done.returncode == 1
    assert "nothing of purchase_30d is published" in done.stderr


def test_freshness_tells_cron(tmp_path):
    done = run("freshness", PROFILE_DATA=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.startswith("stale: ")


def test_a_day_that_was_never_judged_cannot_be_released(tmp_path):
    done = run("release", "2026-01-05", "--check", "min_rows", "--why", "right", PROFILE_DATA=str(tmp_path))
    assert done.returncode == 1
    assert "min_rows of 2026-01-05 is not released: it was never judged" in done.stderr


def test_a_day_that_is_not_published_cannot_be_withdrawn(tmp_path):
    done = run("withdraw", "2026-01-05", "--why", "wrong", PROFILE_DATA=str(tmp_path))
    assert done.returncode == 1
    assert "2026-01-05 is not published" in done.stderr


STALE = """
name = "risk"
time_zone = "UTC"
start_day = 2026-01-05
[source]
path = "in/{day}"
ready = "_SUCCESS"
[contract]
id = "account"
[[contract.columns]]
name = "balance"
type = "float64"
[model]
features = [{ name = "balance" }]
[alerts]
urls_env = ["CHAT", "UNSET"]
"""


def test_freshness_names_the_oldest_missing_day_of_each_target_and_late_sources(tmp_path):
    profile = tmp_path / "risk.toml"
    profile.write_text(STALE)
    done = run("freshness", PROFILE_DATA=str(tmp_path), PROFILE_CONFIG=str(profile))
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (1, "")
    assert lines[0].endswith("; oldest missing day 2026-01-05")
    assert lines[1].startswith("  offline: stale, newest None, ")
    assert lines[2].startswith("  online: stale, newest None, ")
    assert lines[-1].endswith(": its source has no _SUCCESS")


def test_freshness_before_the_first_due_day_is_no_alarm(tmp_path):
    profile = tmp_path / "risk.toml"
    profile.write_text(STALE.replace("2026-01-05", "2999-01-05"))
    done = run("freshness", PROFILE_DATA=str(tmp_path), PROFILE_CONFIG=str(profile))
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "not_started")


def test_a_first_day_in_the_future_is_named_where_days_are_published_or_are_to_be(tmp_path):
    profile = tmp_path / "risk.toml"
    profile.write_text(STALE.replace("2026-01-05", "2999-01-05"))
    here = {"PROFILE_DATA": str(tmp_path), "PROFILE_CONFIG": str(profile)}
    done = run("backfill", "2026-01-05", "2026-01-06", **here)
    assert (done.returncode, "start_day is 2999-01-05" in done.stderr) == (1, True)
    assert run("check", **here).stderr == ""
    part = tmp_path / "risk" / "feature_store" / "offline" / "ds=2026-01-05" / "part-00000.parquet"
    part.parent.mkdir(parents=True)
    part.touch()
    done = run("check", **here)
    assert done.returncode == 0
    assert "warning: start_day 2999-01-05 is still to come" in done.stderr
    done = run("freshness", **here)
    assert (done.returncode, done.stdout.split(":")[0]) == (1, "unknown")


def test_alert_test_says_of_each_channel_what_came_back_and_no_secret(tmp_path):
    profile = tmp_path / "risk.toml"
    profile.write_text(STALE)
    named = {"PROFILE_DATA": str(tmp_path), "PROFILE_CONFIG": str(profile), "NO_PROXY": "127.0.0.1"}
    done = run("alert-test", **named, CHAT="json://127.0.0.1:1/s3cr3tt0k3n nosuch://s3cr3tt0k3n")
    assert done.returncode == 1
    assert "✗ CHAT: later, ConnectionError: Connection refused" in done.stdout
    assert "✗ CHAT[2]: refused, Apprise cannot use an address of the kind 'nosuch'" in done.stdout
    assert "✗ UNSET: refused, its environment variable is not set" in done.stdout
    assert "s3cr3tt0k3n" not in done.stdout + done.stderr


def test_alert_test_without_a_channel_says_how_to_name_one(tmp_path):
    done = run("alert-test", PROFILE_DATA=str(tmp_path))
    assert done.returncode == 1
    assert "the profile purchase_30d names no channel" in done.stderr


def test_metrics_are_printed_or_written(tmp_path):
    printed = run("metrics", PROFILE_DATA=str(tmp_path))
    assert 'profile_assets_stale{profile="purchase_30d",target="offline"} 1' in printed.stdout
    written = run("metrics", "--write", PROFILE_DATA=str(tmp_path))
    path = tmp_path / "purchase_30d" / "metrics" / "purchase_30d.prom"
    assert written.stdout.strip() == str(path)
    assert 'profile_assets_stale{profile="purchase_30d",target="offline"} 1' in path.read_text()


def test_the_commands_about_models_are_these():
    models = typer.main.get_group(app).commands["models"]
    moves = ["promote", "rollback", "set-aside-log", "shadow", "show"]
    assert sorted(models.commands) == ["canary", "history", "import", "list", *moves]


def test_a_rollback_without_a_model_says_so(tmp_path):
    done = run("models", "rollback", "--why", "worse", PROFILE_DATA=str(tmp_path))
    assert done.returncode == 1
    assert "nothing to roll back to" in done.stderr
