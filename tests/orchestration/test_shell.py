import datetime as dt
from pathlib import Path

import dagster as dg
import pytest

from profile_assets.errors import ContractError, LockedError, StorageError
from profile_assets.orchestration.judging import check_results, stop_if_failed
from profile_assets.orchestration.shell import TRANSIENT, dagster_errors, writing
from profile_assets.profile import load_deployment
from profile_assets.storage.atomic import locked
from profile_assets.storage.layout import RAW_USERS, USER_SHARDS
from profile_assets.storage.verdicts import Outcome, Release, StageVerdict

DAY = dt.date(2026, 1, 5)
KEY = dg.AssetKey(["risk", "raw_users"])


def outcome(check: str, result: str, **numbers: float) -> Outcome:
    return Outcome(check=check, result=result, detail=f"{check} said {result}", **numbers)  # type: ignore[arg-type]


def verdict(*outcomes: Outcome, releases: tuple[Release, ...] = ()) -> StageVerdict:
    return StageVerdict(stage=RAW_USERS, digest="d", outcomes=outcomes, releases=releases)


def test_a_permanent_error_ends_the_run_with_its_remedy_and_no_retry():
    with pytest.raises(dg.Failure) as caught, dagster_errors(dg.build_asset_context()):
        raise ContractError("column a is gone", remedy="bring it back")
    assert not caught.value.allow_retries
    assert caught.value.description == "column a is gone -> bring it back"


def attempts_of(tmp_path: Path, waits: tuple[float, ...]) -> tuple[list[int], dg.ExecuteInProcessResult]:
    """The attempts at a step whose disk is away for good, and its run."""
    attempts = []

    @dg.op
    def away(context: dg.OpExecutionContext) -> None:
        attempts.append(context.retry_number)
        with dagster_errors(context, retry_waits_s=waits):
            raise StorageError("the disk is away", remedy="wait")

    @dg.job(executor_def=dg.in_process_executor)
    def one() -> None:
        away()

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        return attempts, one.execute_in_process(raise_on_error=False, instance=instance)


def test_transient_errors_are_retried_twice_after_one_and_ten_minutes_by_default():
    assert load_deployment(environment={}).retry_waits_s == (60, 600)


@pytest.mark.parametrize("waits", [(), (0,), (0, 0)])
def test_a_transient_error_is_retried_as_often_as_there_are_waits(tmp_path: Path, waits):
    attempts, result = attempts_of(tmp_path, waits)
    assert attempts == list(range(len(waits) + 1))
    assert not result.success
    (failure,) = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    said = failure.user_failure_data
    assert said.description == f"the disk is away -> wait; tried {len(waits) + 1} of {len(waits) + 1} times"
    assert TRANSIENT in said.metadata


def test_an_error_that_nobody_expected_is_left_alone():
    with pytest.raises(ZeroDivisionError), dagster_errors(dg.build_asset_context()):
        _ = 1 / 0


def test_the_writer_of_a_day_is_alone(tmp_path: Path):
    deployment = load_deployment(environment={"PROFILE_DATA": str(tmp_path)})
    layout, context = deployment.layout, dg.build_asset_context()
    with writing(context, deployment, USER_SHARDS, DAY, reading=[RAW_USERS]):
        for stage in (USER_SHARDS, RAW_USERS):
            with pytest.raises(LockedError), locked(layout.day_lock(stage, DAY), what=stage, wait_s=0):
                pass
        with locked(layout.day_lock(RAW_USERS, DAY), what=RAW_USERS, is_shared=True, wait_s=0):
            pass
        with locked(layout.day_lock(USER_SHARDS, DAY + dt.timedelta(days=1)), what="another day", wait_s=0):
            pass
    with locked(layout.day_lock(USER_SHARDS, DAY), what=USER_SHARDS, wait_s=0):
        pass


def test_what_was_not_evaluated_is_no_result():
    found = verdict(outcome("a", "pass", observed=1.0, limit=2.0), outcome("b", "not_evaluated"), outcome("c", "fail"))
    results = {result.check_name: result for result in check_results(KEY, found, DAY)}
    assert {name: result.passed for name, result in results.items()} == {"a": True, "c": False}
    assert results["a"].metadata["observed"].value == 1.0
    assert results["a"].metadata["limit"].value == 2.0


def test_a_day_goes_on_only_when_every_outcome_lets_it_through():
    stop_if_failed(verdict(outcome("a", "pass"), outcome("b", "no_baseline")), DAY)
    with pytest.raises(dg.Failure) as caught:
        stop_if_failed(verdict(outcome("a", "pass"), outcome("b", "not_evaluated"), outcome("c", "fail")), DAY)
    assert not caught.value.allow_retries
    for expected in ("raw_users of 2026-01-05", "b (not_evaluated)", "c (fail)"):
        assert expected in str(caught.value.description)
    assert "a (pass)" not in str(caught.value.description)


@pytest.mark.parametrize("stopped", [("b", "not_evaluated"), ("unique_ids", "fail")])
def test_a_release_is_offered_only_where_it_would_be_taken(stopped):
    with pytest.raises(dg.Failure) as caught:
        stop_if_failed(verdict(outcome(*stopped), outcome("c", "fail")), DAY)
    assert "profile-assets release" not in str(caught.value.description)
    assert f"nobody can release {stopped[0]}:" in str(caught.value.description)
    with pytest.raises(dg.Failure, match=r"release 2026-01-05 --check c --why .* \(and so for d\)"):
        stop_if_failed(verdict(outcome("c", "fail"), outcome("d", "fail")), DAY)


def test_a_failure_that_warns_or_was_released_is_shown_as_one_and_stops_nothing():
    warned = Outcome(check="drift", result="fail", detail="far", severity="warn", observed=float("nan"))
    release = Release(check="rows", digest="d", by="ada", at="2026-01-06T08:00:00+00:00", why="closed shops")
    found = verdict(warned, outcome("rows", "fail"), outcome("other", "fail"), releases=(release,))
    results = {result.check_name: result for result in check_results(KEY, found, DAY)}
    assert {name: (result.passed, result.severity.value) for name, result in results.items()} == {
        "drift": (False, "WARN"),
        "rows": (False, "WARN"),
        "other": (False, "ERROR"),
    }
    assert results["rows"].description == "released by ada: closed shops"
    assert results["rows"].metadata["found"].value == "rows said fail"
    assert results["drift"].metadata["observed"].value == "nan"
    with pytest.raises(dg.Failure, match="other"):
        stop_if_failed(found, DAY)
    stop_if_failed(verdict(warned, outcome("rows", "fail"), releases=(release,)), DAY)


def test_a_release_of_other_data_stops_the_day_all_the_same():
    release = Release(check="rows", digest="other", by="ada", at="2026-01-06T08:00:00+00:00", why="closed shops")
    with pytest.raises(dg.Failure, match="rows"):
        stop_if_failed(verdict(outcome("rows", "fail"), releases=(release,)), DAY)
