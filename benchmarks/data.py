"""The data set that everybody scores: generated users, landed and split by the package's own code, and a network.

Per user 8 numbers with 3 % missing and 6 text columns of 3 to 50,000 distinct values; a wide-and-deep network with
embeddings of 16 and layers 128-64-1. Its weights are drawn, not trained: speed does not depend on them, and they are
drawn wide enough that scores spread and a wrong encoding shows. What is there already is used again.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from profile_assets.calibration import fresh_bundle
from profile_assets.models.network import Network
from profile_assets.models.registry import set_first_stable
from profile_assets.models.settings import NetworkSettings
from profile_assets.profile import Deployment, load_deployment
from profile_assets.shards.split import split
from profile_assets.storage.layout import USER_SHARDS, Layout
from profile_assets.storage.stages import commit
from profile_assets.users.day_folders import PART_FILE, day_folder
from profile_assets.users.generate import USERS_SCHEMA, generate
from profile_assets.users.land import commit_landing, land

NAME = "load"
FIRST_DAY = dt.date(2026, 1, 5)
BUNDLE_SAMPLE = 500_000  # users that the vocabularies are read off
_SEED = 20260105


@dataclass(frozen=True, kw_only=True)
class World:
    """A root of its own: the generated source, a deployment, a bundle, and the first day landed and split."""

    root: Path
    users: int
    days: tuple[dt.date, ...]
    profile: Path

    @property
    def deployment(self) -> Deployment:
        return load_deployment(self.profile, environment={"PROFILE_DATA": str(self.root)})

    @property
    def layout(self) -> Layout:
        return self.deployment.layout

    @property
    def bundle(self) -> Path:
        return next(path for path in self.layout.models.iterdir() if path.name.startswith("b-"))

    @property
    def shard_files(self) -> list[Path]:
        return sorted(self.layout.stage(USER_SHARDS, self.days[0]).glob("*.parquet"))

    @property
    def source_file(self) -> Path:
        """The first day's users as one file."""
        return day_folder(self.root / "generated" / "users", self.days[0]) / PART_FILE


def prepare(root: Path, *, users: int, shards: int = 16, num_days: int = 1, numbers: str = "float64") -> World:
    """The world at `root`, made only where it is not there in this shape. `numbers` is their type once landed."""
    days = tuple(FIRST_DAY + dt.timedelta(days=offset) for offset in range(num_days))
    world = World(root=root, users=users, days=days, profile=root / "profile.toml")
    shape = {"users": users, "shards": shards, "days": num_days, "numbers": numbers}
    done = root / "world.json"
    if done.exists() and json.loads(done.read_text(encoding="utf-8")) == shape:
        return world
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    world.profile.write_text(profile_text(shards, numbers), encoding="utf-8")
    generate(root, users, days, seed=_SEED)
    make_bundle(world)
    _land_and_split(world, shards)
    done.write_text(json.dumps(shape), encoding="utf-8")
    return world


def other_root(world: World, root: Path, *, stages: Sequence[str] = ()) -> World:
    """The same source and model under another root, where of the first day only `stages` are done.

    The files are linked, not copied.
    """
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    shutil.copytree(world.root / "generated", root / "generated", copy_function=os.link)
    shutil.copytree(world.layout.models, root / world.layout.name / "models", copy_function=os.link)
    shutil.copy(world.profile, root / "profile.toml")
    other = World(root=root, users=world.users, days=world.days, profile=root / "profile.toml")
    for stage in stages:
        done, there = (one.layout.stage(stage, world.days[0]) for one in (world, other))
        shutil.copytree(done, there, copy_function=os.link)
    return other


def with_lookups(world: World) -> World:
    """The world, its days brought online too."""
    text = world.profile.read_text(encoding="utf-8")
    world.profile.write_text(text.replace('store = "none"', 'store = "sqlite"'), encoding="utf-8")
    return world


def profile_text(shards: int, numbers: str) -> str:
    """The profile of the generated users.

    A day scores in its own process: what starting others costs is measured apart, before the clock of those who do.
    Lookups, a copy of the table that not everybody keeps, have a measurement of their own (`with_lookups`).
    """
    types = {field.name: numbers if str(field.type) == "double" else "string" for field in USERS_SCHEMA}
    columns = [name for name in types if name != "user_id"]
    contract = "\n".join(f'[[contract.columns]]\nname = "{name}"\ntype = "{types[name]}"' for name in columns)
    features = ", ".join(f'{{ name = "{name}" }}' for name in columns)
    return f"""name = "{NAME}"
time_zone = "UTC"
start_day = {FIRST_DAY}
[source]
path = "generated/users"
format = "parquet"
[contract]
id = "user_id"
{contract}
[model]
features = [{features}]
[shards]
count = {shards}
[scoring]
workers = 1
[export.online]
store = "none"
"""


def make_bundle(world: World, network: NetworkSettings | None = None) -> None:
    """Make the bundle of the world and promote it; `network` is another than the usual one."""
    sample_root = world.root / "sample"
    sample = generate(sample_root, min(world.users, BUNDLE_SAMPLE), world.days[:1], seed=_SEED)
    torch.manual_seed(_SEED)
    users = day_folder(sample.users, world.days[0]) / PART_FILE
    bundle = fresh_bundle(world.layout.models, users, draw=_draw, settings=network)
    shutil.rmtree(sample_root)
    set_first_stable(world.layout, bundle.name, "drawn for a benchmark")


def _draw(network: Network) -> None:
    """Weights under which scores spread over most of 0 to 1, so that a wrong slot or number shows."""
    with torch.no_grad():
        for name in ("linear_numeric", "linear_slots", "embeddings"):
            network.get_parameter(name).normal_(std=0.3)


def _land_and_split(world: World, shards: int) -> None:
    deployment, layout, day = world.deployment, world.layout, world.days[0]
    commit_landing(layout, day, land(deployment.source, deployment.contract, day, layout))
    commit(layout, day, split(layout, day, shards))
