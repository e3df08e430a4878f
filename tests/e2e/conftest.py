"""The whole job on the real customers: one root that the tests of this room share, and ways to start their own."""

from __future__ import annotations

import datetime as dt
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from profile_assets.models.registry import read_pointer
from profile_assets.orchestration.build import build_definitions
from profile_assets.orchestration.launch import Session
from profile_assets.profile import Deployment, load_deployment
from profile_assets.users.demo import prepare

TODAY = dt.datetime.now(dt.UTC).date()


@dataclass(frozen=True, kw_only=True)
class World:
    """A deployment with its source prepared and a model trained, and a Dagster instance of its own."""

    deployment: Deployment
    instance: dg.DagsterInstance

    @property
    def session(self) -> Session:
        return Session(
            deployment=self.deployment, definitions=build_definitions(self.deployment), instance=self.instance
        )

    @property
    def days(self) -> list[dt.date]:
        """The three newest days of the demo."""
        return [TODAY - dt.timedelta(days=back) for back in (3, 2, 1)]


@pytest.fixture(scope="session")
def new_instance() -> Callable[[Path], dg.DagsterInstance]:
    """Makes an instance whose state lies below a folder."""

    def make(root: Path) -> dg.DagsterInstance:
        home = root / "dagster"
        home.mkdir()
        return dg.DagsterInstance.local_temp(str(home))

    return make


@pytest.fixture(scope="session")
def demo_world(
    tmp_path_factory: pytest.TempPathFactory, new_instance: Callable[[Path], dg.DagsterInstance]
) -> Iterator[World]:
    """The demo prepared, trained, and its three newest days published. Tests only read it."""
    root = tmp_path_factory.mktemp("demo")
    prepare(root, TODAY)
    deployment = load_deployment(environment={"PROFILE_DATA": str(root)})
    with new_instance(root) as instance:
        world = World(deployment=deployment, instance=instance)
        world.session.train()
        assert read_pointer(deployment.layout, "stable") is not None
        for day in world.days:
            world.session.score(day)
        yield world


@pytest.fixture
def fresh_world(
    demo_world: World, tmp_path: Path, new_instance: Callable[[Path], dg.DagsterInstance]
) -> Iterator[World]:
    """A copy of the demo's source and model with nothing scored yet, to be broken as a test likes."""
    import shutil

    layout = demo_world.deployment.layout
    shutil.copytree(layout.root / "demo", tmp_path / "demo")
    shutil.copytree(layout.models, tmp_path / layout.name / "models")
    with new_instance(tmp_path) as instance:
        deployment = load_deployment(environment={"PROFILE_DATA": str(tmp_path)})
        yield World(deployment=deployment, instance=instance)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Days of a small score, to be run and to die: `SmallDays` of small_days.py. Tests work on copies of its root."""
    place = importlib.util.spec_from_file_location("small_days", Path(__file__).with_name("small_days.py"))
    assert place is not None
    assert place.loader is not None
    module = importlib.util.module_from_spec(place)
    sys.modules[place.name] = module
    place.loader.exec_module(module)
    with module.small_days(tmp_path_factory.mktemp("small")) as days:
        yield days
