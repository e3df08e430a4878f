"""`profile-assets alert-test` where every channel takes the test, and where one does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from profile_assets.commands import alerts
from profile_assets.profile.loading import default_profile


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    profile = tmp_path / "told.toml"
    profile.write_text(
        default_profile().read_text()
        + '\n[alerts]\nurls_env = ["CHAT"]\n[[alerts.channels]]\nurl_env = "PAGER"\nmin_severity = "error"\n'
    )
    monkeypatch.setenv("PROFILE_CONFIG", str(profile))
    monkeypatch.setenv("PROFILE_DATA", str(tmp_path))
    return monkeypatch


def test_everybody_gets_the_test_whatever_else_goes_there(named, endpoint, mailbox, capsys):
    named.setenv("CHAT", f"json://127.0.0.1:{endpoint.port}")
    named.setenv("PAGER", f"mailto://127.0.0.1:{mailbox.port}?from=a@example.org&to=b@example.org")
    assert alerts.alert_test() == 0
    assert endpoint.titles() == ["[INFO] purchase_30d: this is a test"]
    assert len(mailbox.messages) == 1
    assert capsys.readouterr().out.splitlines() == ["✓ CHAT: delivered, HTTP 200", "✓ PAGER: delivered, accepted"]


def test_one_that_fails_is_told_and_is_the_exit_status(named, endpoint, capsys):
    endpoint.reply.status, endpoint.reply.body = 429, "slow down"
    named.setenv("CHAT", f"json://127.0.0.1:{endpoint.port}")
    assert alerts.alert_test() == 1
    assert "✗ CHAT: later, HTTP 429: slow down" in capsys.readouterr().out
