"""A profile and the root it works under, as the plain settings that each room takes."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

from profile_assets.alerts.settings import AlertSettings, ChannelSettings
from profile_assets.alerts.watch import Watch
from profile_assets.errors import ProfileError
from profile_assets.feature_store.settings import BucketSettings, ExportSettings, OnlineSettings
from profile_assets.features.spec import FeatureSettings
from profile_assets.models.grounds import Grounds
from profile_assets.models.recipe import Recipe
from profile_assets.models.settings import NetworkSettings, PromotionLimits, TrainingSettings
from profile_assets.profile.fields import Profile
from profile_assets.profile.table_fields import Labels, Source
from profile_assets.quality.freshness import DueRule
from profile_assets.quality.gates import Limits, Rules
from profile_assets.scoring.settings import ScoringSettings
from profile_assets.storage.layout import Layout
from profile_assets.storage.pulling import pull
from profile_assets.storage.remote import where
from profile_assets.upkeep.settings import Retention
from profile_assets.users.contract import Column, Contract, parse_type
from profile_assets.users.labels import LabelSettings
from profile_assets.users.source import CsvSettings, SourceSettings, SqlSettings, parse_ready


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One profile under one root. `root` is absolute."""

    profile: Profile
    root: Path

    @property
    def layout(self) -> Layout:
        return Layout(root=self.root, name=self.profile.name)

    @property
    def where(self) -> str:
        """Where the truth lies: a folder, or s3://."""
        return where(self.layout.offline).removesuffix("/feature_store/offline")

    @property
    def contract(self) -> Contract:
        table = self.profile.contract
        columns = tuple(Column(**{**dict(column), "type": parse_type(column.type)}) for column in table.columns)
        return Contract(id=table.id, columns=columns, keep=table.keep, max_quarantine_rate=table.max_quarantine_rate)

    @property
    def source(self) -> SourceSettings:
        source = self.profile.source
        ready = parse_ready(source.ready)
        return SourceSettings(
            path=self._under_root(source.path),
            format="sql" if source.query else source.format,
            hive_key=source.hive_key,
            csv=CsvSettings(**dict(source.csv)),
            s3_endpoint=source.s3_endpoint,
            success_marker=ready.success_marker,
            stable_for_s=ready.stable_for_s,
            sql=self._sql(source),
        )

    @property
    def labels(self) -> LabelSettings:
        labels = self.profile.labels
        if labels is None:
            raise ProfileError("the profile has no [labels]", remedy="add where the labels lie, or import weights")
        fields = {**dict(labels), "path": self._under_root(labels.path), "csv": CsvSettings(**dict(labels.csv))}
        fields |= {"format": "sql" if labels.query else labels.format, "sql": self._sql(labels)}
        return LabelSettings(**{name: value for name, value in fields.items() if name not in ("query", "url_env")})

    @property
    def training(self) -> TrainingSettings:
        if self.profile.training is None:
            raise ProfileError("the profile has no [training]", remedy="add it, or import weights trained elsewhere")
        return TrainingSettings(**dict(self.profile.training))

    @property
    def recipe(self) -> Recipe:
        """What a bundle is made from, with the labels that are known today."""
        return Recipe(
            source=self.source,
            contract=self.contract,
            labels=self.labels,
            features=self.features,
            network=self.network,
            training=self.training,
            today=self.today(),
        )

    @property
    def grounds(self) -> Grounds | None:
        """What bundles are compared by, with the labels that are known today; None where the profile has no labels."""
        if self.profile.labels is None:
            return None
        return Grounds(source=self.source, contract=self.contract, labels=self.labels, today=self.today())

    @property
    def promotion(self) -> PromotionLimits:
        return PromotionLimits(**dict(self.profile.promotion))

    @property
    def features(self) -> tuple[FeatureSettings, ...]:
        return tuple(FeatureSettings(**dict(feature)) for feature in self.profile.model.features)

    @property
    def network(self) -> NetworkSettings:
        return NetworkSettings(**self.profile.model.model_dump(exclude={"features"}))

    @property
    def scoring(self) -> ScoringSettings:
        fields = dict(self.profile.scoring)
        if fields["batch_rows"] is None:
            del fields["batch_rows"]
            fields["finds_batch"] = True
        return ScoringSettings(**fields)

    @property
    def rules(self) -> Rules:
        """What the gates hold a day against."""
        quality = self.profile.quality
        limits = Limits(**quality.model_dump(exclude={"suite"}))
        suite = None if quality.suite is None else self.root / quality.suite
        return Rules(contract=self.contract, limits=limits, suite=suite)

    @property
    def export(self) -> ExportSettings:
        export = self.profile.export
        online = None if export.online.store == "none" else OnlineSettings(**dict(export.online))
        bucket = None if export.bucket is None else BucketSettings(**dict(export.bucket))
        return ExportSettings(offline=export.offline, columns=export.columns, online=online, bucket=bucket)

    @property
    def watch(self) -> Watch:
        """What the alerts look at, and who is told."""
        alerts = self.profile.alerts
        channels = (
            *(ChannelSettings(url_env=name) for name in alerts.urls_env),
            *(ChannelSettings(**dict(channel)) for channel in alerts.channels),
        )
        metrics = None if alerts.metrics_file is None else self.root / alerts.metrics_file
        fields = {**alerts.model_dump(exclude={"urls_env"}), "channels": channels, "metrics_file": metrics}
        return Watch(
            layout=self.layout,
            rule=self.due_rule,
            source=self.source,
            online=self.export.online,
            has_copy=self.export.bucket is not None,
            settings=AlertSettings(**fields),
        )

    @property
    def retention(self) -> Retention:
        return Retention(**dict(self.profile.retention))

    @property
    def retry_waits_s(self) -> tuple[float, ...]:
        return self.profile.retries.waits_s

    def pull(self, *days: dt.date) -> None:
        """Bring the working copy up to date, with the rows of `days`, where the truth lies on S3."""
        pull(self.layout, days)

    def today(self) -> dt.date:
        """The date in the profile's zone."""
        return dt.datetime.now(ZoneInfo(self.profile.time_zone)).date()

    @property
    def due_rule(self) -> DueRule:
        schedule = self.profile.schedule
        return DueRule(
            time_zone=self.profile.time_zone,
            hour=schedule.hour + schedule.minute / 60,
            grace_hours=schedule.grace_hours,
            start_day=schedule.live_from or self.profile.start_day,
            first_day=self.profile.start_day,
        )

    def _sql(self, table: Source | Labels) -> SqlSettings | None:
        if table.query is None:
            return None
        return SqlSettings(query=table.query, url_env=table.url_env or "", copies=self.layout.scratch("queries"))

    def _under_root(self, path: str) -> str:
        return path if path.startswith("s3://") else str(self.root / path)
