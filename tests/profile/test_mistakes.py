from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from profile_assets.errors import ProfileError
from profile_assets.profile import Profile, load_profile
from profile_assets.profile.mistakes import field_mistakes, joint_mistakes

MINIMAL = """
name = "risk"
time_zone = "Europe/Berlin"
start_day = 2026-01-01
[source]
path = "in/{day}"
[contract]
id = "account"
columns = [{ name = "balance", type = "float64" }]
[model]
features = [{ name = "balance" }]
"""


def mistakes_of(path: Path) -> str:
    with pytest.raises(ProfileError) as caught:
        load_profile(path)
    return str(caught.value)


def test_every_mistake_is_told_at_once_with_its_path_and_remedy(write: Callable[[str], Path], minimal: str):
    text = mistakes_of(
        write(
            minimal.replace('"Europe/Berlin"', '"Europe/Berln"')
            .replace('type = "float64"', 'type = "flote64"')
            .replace('name = "risk"', 'name = "Risk!"')
            .replace('{ name = "country" }', '{ name = "contry" }, { name = "country", transform = "log1p" }')
            + '[shards]\ncounts = 4\n[scoring]\nbatch_rows = 1000\ndevice = "tpu"\n[quality]\nmin_rows = -1\n'
        )
    )
    for expected in (
        "has 9 mistake(s)",
        "name: ",
        "time_zone: no such time zone; did you mean 'Europe/Berlin'?",
        "contract.columns[0].type: ",
        "model.features[1].name: 'contry' is no column of the contract; did you mean 'country'?",
        "model.features[2].transform: 'country' is text and takes no transform",
        "shards.counts: no such field; did you mean 'count'?",
        "scoring.batch_rows: ",
        "scoring.device: ",
        "quality.min_rows: ",
    ):
        assert expected in text


def test_a_missing_field_is_named_with_its_meaning(write: Callable[[str], Path]):
    text = mistakes_of(write('name = "risk"\n'))
    assert "source: is missing; add it (where the users lie)" in text
    assert "start_day: is missing" in text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('name = "country"\ntype', 'name = "balance"\ntype', "contract.columns: 'balance' and 'balance' are one name"),
        (
            'name = "country"\ntype',
            'name = "account"\ntype',
            "contract.columns[1].name: 'account' is the id's own name",
        ),
        (
            'name = "country"\ntype',
            'name = "user_id"\ntype',
            "contract.columns[1].name: 'user_id' is the id's own name",
        ),
        ('{ name = "country" }', '{ name = "balance" }', "model.features[1].name: 'balance' stands twice"),
        ('type = "float64"', 'type = "float64"\nminimum = 2\nmaximum = 1', "minimum 2 is above maximum 1"),
    ],
)
def test_contradictions_are_named(write: Callable[[str], Path], minimal: str, old: str, new: str, expected: str):
    assert old in minimal
    assert expected in mistakes_of(write(minimal.replace(old, new)))


def test_training_needs_labels_and_a_gap_before_what_is_measured(write: Callable[[str], Path], minimal: str):
    training = "[training]\nfirst_day = 2026-01-01\nlast_day = 2026-03-01\nselection_day = 2026-03-15\n"
    assert "labels: is missing" in mistakes_of(write(minimal + training))
    labels = '[labels]\npath = "l"\nkey = "account"\ncolumn = "y"\nhorizon_days = 30\n'
    text = mistakes_of(write(minimal + training + labels))
    assert "training: 2026-03-15 is measured, but labels up to 2026-03-31 were trained on" in text


@pytest.mark.parametrize(
    ("addition", "expected"),
    [
        ("[model.x]", "model.x: no such field"),
        ("[alerts]\nurls_env = [3]", "alerts.urls_env[0]: "),
        ("[alerts]\nurls_env = 3", "alerts.urls_env: "),
        ('[shards]\ncount = "x"', "shards.count: "),
        ("[schedule]\nlive_from = 2026-01-01T01:00:00", "schedule.live_from: "),
        (
            "[training]\nfirst_day = 2026-01-01T01:00:00\nlast_day = 2026-01-02\nreport_days = 5",
            "training.report_days: ",
        ),
        (
            '[training]\nlast_day = 5\nselection_day = []\nreport_days = ["x"]',
            "training.report_days[0]: ",
        ),
    ],
)
def test_values_of_the_wrong_kind_are_told_and_never_a_stack(
    write: Callable[[str], Path], minimal: str, addition: str, expected: str
):
    assert expected in mistakes_of(write(f"{minimal}\n{addition}\n"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            'type = "string"',
            'type = "string"\nminimum = 1',
            "contract.columns[1]: column 'country': minimum and maximum",
        ),
        (
            'type = "float64"',
            'type = "float64"\nvalues = ["a"]',
            "contract.columns[0]: column 'balance': values are for",
        ),
        ('type = "float64"', 'type = "float64"\nvalues = [1]', "contract.columns[0].values[0]: "),
        ('name = "country"\ntype', 'name = "Balance"\ntype', "'balance' and 'Balance' are one name"),
        ('type = "float64"', 'type = "date"', "model.features[0].name: 'balance' is a date"),
    ],
)
def test_what_only_a_room_refuses_is_told_with_the_rest(
    write: Callable[[str], Path], minimal: str, old: str, new: str, expected: str
):
    assert old in minimal
    assert expected in mistakes_of(write(minimal.replace(old, new)))


def test_the_selection_day_is_not_reported_as_unseen(write: Callable[[str], Path], minimal: str):
    training = "[training]\nfirst_day = 2026-01-01\nlast_day = 2026-01-08\nselection_day = 2026-03-15\n"
    labels = '[labels]\npath = "l"\nkey = "account"\ncolumn = "y"\nhorizon_days = 30\n'
    text = mistakes_of(write(minimal + training + "report_days = [2026-03-15]\n" + labels))
    assert "training.report_days: 2026-03-15 is the selection_day" in text


@settings(max_examples=150)
@given(
    path=st.lists(
        st.sampled_from(["contract", "columns", "model", "features", "source", "training", "labels", "name"]),
        min_size=1,
        max_size=3,
    ),
    value=st.one_of(
        st.none(),
        st.integers(),
        st.text(max_size=3),
        st.lists(
            st.one_of(
                st.integers(),
                st.text(max_size=2),
                st.dictionaries(st.sampled_from(["name", "type"]), st.text(max_size=3)),
            )
        ),
        st.dates(),
        st.datetimes(),
    ),
)
def test_whatever_stands_in_the_file_is_a_profile_or_a_named_mistake(path: list[str], value: object):
    raw = tomllib.loads(MINIMAL)
    table = raw
    for part in path[:-1]:
        inner = table.get(part)
        table = inner if isinstance(inner, dict) else table
    table[path[-1]] = value
    try:
        Profile.model_validate(raw)
        told = []
    except ValidationError as error:
        told = field_mistakes(error)
    assert all(": " in line for line in (*told, *joint_mistakes(raw)))


def test_a_limit_of_zero_is_a_limit(write: Callable[[str], Path], minimal: str):
    profile = load_profile(write(minimal + "[quality]\nmax_row_change = 0\nmax_null_rate_change = 0.0\n"))
    assert profile.quality.max_row_change == 0
    assert profile.quality.max_null_rate_change == 0


def test_infinity_is_no_limit(write: Callable[[str], Path], minimal: str):
    assert "quality.max_row_change" in mistakes_of(write(minimal + "[quality]\nmax_row_change = inf\n"))


QUERY = 'query = "select * from u where d = :day"\nurl_env = "RISK_DB"'


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f'path = "in"\n{QUERY}', "source: give either path (files) or query and url_env (a database)"),
        ('format = "csv"', "source: give either path (files) or query and url_env (a database)"),
        ('query = "select * from u where d = :day"', "source.url_env: is missing; name the environment variable"),
        ('query = "select * from u"\nurl_env = "A"', "source.query: has no :day"),
        ('query = "select \':day\' from u -- :day"\nurl_env = "A"', "source.query: has no :day"),
        (f'{QUERY}\nready = "_SUCCESS"', "source.ready: a query has no folder for _SUCCESS"),
        ('path = "in"\nready = "soon"', "source.ready: 'soon' is none of"),
    ],
)
def test_a_source_is_files_or_a_query(write: Callable[[str], Path], minimal: str, source: str, expected: str):
    assert expected in mistakes_of(write(minimal.replace('path = "in/{day}"', source)))


def test_a_url_that_was_written_into_the_profile_is_not_repeated(write: Callable[[str], Path], minimal: str):
    source = QUERY.replace("RISK_DB", "postgresql://u:hunter2@h/d")
    text = mistakes_of(write(minimal.replace('path = "in/{day}"', source)))
    assert "source.url_env: " in text
    assert "hunter2" not in text


def test_a_list_is_no_feature(write: Callable[[str], Path], minimal: str):
    text = mistakes_of(write(minimal.replace('type = "float64"', 'type = "list<float32,8>"')))
    assert "model.features[0].name: 'balance' is a list<float32,8>; use numbers, bool or string" in text


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ('["contry"]', "export.columns[0]: 'contry' is no column of the contract; did you mean 'country'?"),
        ('["country", "score"]', "export.columns[1]: 'score' is the table's own column; leave it out"),
        ('["country", "ds"]', "export.columns[1]: 'ds' is the table's own column"),
        ('["country", "country"]', "export.columns[1]: 'country' stands twice; keep one"),
    ],
)
def test_columns_of_the_table_are_columns_of_the_contract(
    write: Callable[[str], Path], minimal: str, columns: str, expected: str
):
    assert expected in mistakes_of(write(minimal + f"[export]\ncolumns = {columns}\n"))


def test_a_store_that_is_none_of_ours_is_named(write: Callable[[str], Path], minimal: str):
    assert "export.online.store: " in mistakes_of(write(minimal + '[export.online]\nstore = "memcached"\n'))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('name = "risk"', 'name = "dagster"', "name: 'dagster' is a folder of the data root with another use"),
        (
            "[source]",
            "[schedule]\nlive_from = 2025-12-31\n[source]",
            "schedule.live_from: 2025-12-31 is before start_day",
        ),
        (
            "[contract]",
            '[source.csv]\ndelimiter = "§"\n[contract]',
            "source.csv.delimiter: must be one character of ASCII",
        ),
        (
            "[contract]",
            '[source.csv]\ndecimal = ","\n[contract]',
            "source.csv.decimal: ',' is the delimiter as well",
        ),
        (
            "[contract]",
            '[source.csv]\ndelimiter = ";"\ndecimal = ","\nthousands = ","\n[contract]',
            "source.csv.thousands: ',' is the decimal mark or the delimiter as well",
        ),
        ('type = "string"', 'type = "string"\nvalues = []', "values"),
        ('type = "string"', 'type = "string"\nvalues = ["DE", "FR", "DE"]', "values lists 'DE' twice"),
        ('name = "country"', 'name = "Account"', "contract.columns[1].name: 'Account' is the id's own name"),
        ('name = "country"', 'name = "User_ID"', "contract.columns[1].name: 'User_ID' is the id's own name"),
        ("[model]", '[export]\ncolumns = ["Score"]\n[model]', "export.columns[0]: 'Score' is the table's own column"),
        ("in/{day}", "in/{date}", "source.path: '{date}' is filled in by nothing; the only placeholder is {day}"),
        ("in/{day}", "in/{day}/{hour", "source.path: '{hour' is filled in by nothing"),
        *(
            ("[contract]", f"[source.csv]\n{mark} = {value!r}\n[contract]", f"source.csv.{mark}: {value!r} is part of")
            for mark, value in [("thousands", "1"), ("thousands", "-"), ("decimal", "e"), ("delimiter", "x")]
        ),
    ],
)
def test_a_profile_that_could_not_work_is_refused(
    write: Callable[[str], Path], minimal: str, old: str, new: str, expected: str
):
    assert expected in mistakes_of(write(minimal.replace(old, new, 1)))


@pytest.mark.parametrize(
    "alerts",
    [
        'urls_env = ["slack://s3cr3tt0k3n"]',
        'heartbeat_url_env = "https://beat.example/s3cr3tt0k3n"',
        '[[alerts.channels]]\nurl_env = "slack://s3cr3tt0k3n"',
        '[[alerts.channels]]\nurl = "slack://s3cr3tt0k3n"',
    ],
)
def test_an_address_written_into_the_profile_is_not_repeated(write: Callable[[str], Path], minimal: str, alerts: str):
    text = mistakes_of(write(f"{minimal}\n[alerts]\n{alerts}\n"))
    assert "mistake(s)" in text
    assert "s3cr3tt0k3n" not in text


@pytest.mark.parametrize(
    ("addition", "expected"),
    [
        (
            '[shadow]\nsegment = "contry"',
            "shadow.segment: 'contry' is no column of the contract; did you mean 'country'?",
        ),
        ('[shadow]\nsegment = "balance"', "shadow.segment: 'balance' is personal or no text"),
        ("[shadow]\nsegment = 3", "shadow.segment: "),
        ("[shadow]\nshare = 0", "shadow.share: "),
        ("[canary]\nshare = 0.6", "canary.share: "),
    ],
)
def test_the_share_and_the_segment_of_a_trial_are_looked_at(
    write: Callable[[str], Path], minimal: str, addition: str, expected: str
):
    assert expected in mistakes_of(write(f"{minimal}\n{addition}\n"))
