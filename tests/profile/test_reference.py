from __future__ import annotations

from pathlib import Path

from profile_assets.profile.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "profile.md"


def test_the_page_of_fields_is_what_the_fields_say():
    """Rewrite it with `profile-assets fields > docs/profile.md`. The file's fields are what users depend on."""
    assert PAGE.read_text(encoding="utf-8") == reference()


def test_every_field_is_described():
    assert "| None |" not in reference()
