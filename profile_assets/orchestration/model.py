"""`model_bundle`: a model made by a job of its own, never by the day's; and `stable_bundle`, the one that scores.

No daily asset stands before `model_bundle`, or a backfill of everything would retrain between the days; what it was
trained on stands in its data snapshot. Nor does it stand right before `user_scores`, or such a backfill would split
every day into two runs with the training between them. Making a bundle moves no pointer, but for the very first.
"""

# No `from __future__ import annotations` here: Dagster looks at the context's annotation itself.

import time

import dagster as dg

from profile_assets.orchestration.keys import MODEL_BUNDLE, STABLE_BUNDLE, key_of
from profile_assets.orchestration.model_pictures import model_metadata
from profile_assets.orchestration.shell import tell, working
from profile_assets.profile import Deployment


def stable_bundle(deployment: Deployment) -> dg.AssetSpec:
    """What the registry's pointer names: moved by a promotion, not by a run, so nothing materializes it."""
    return dg.AssetSpec(
        key_of(deployment, STABLE_BUNDLE),
        deps=[key_of(deployment, MODEL_BUNDLE)],
        group_name=deployment.profile.name,
        kinds={"pytorch"},
        description="The bundle that scores: the one that the registry's pointer `stable` names.",
        metadata={"path": dg.MetadataValue.path(str(deployment.layout.pointer("stable")))},
    )


def model_bundle(deployment: Deployment) -> dg.AssetsDefinition:
    """The asset that trains; `user_scores` reads what the registry's `stable` points to."""

    @dg.asset(
        key=key_of(deployment, MODEL_BUNDLE),
        group_name=deployment.profile.name,
        kinds={"pytorch"},
        description="An immutable bundle: weights, signature, feature spec, metrics, data snapshot, provenance.",
    )
    def model_bundle(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        with working(context, deployment):
            from profile_assets.models.making import make_bundle

            began = time.perf_counter()
            made = make_bundle(deployment.recipe, deployment.layout, progress=lambda line: tell(context, line))
        return dg.MaterializeResult(
            metadata={
                **model_metadata(made),
                "path": dg.MetadataValue.path(str(deployment.layout.bundle(made.bundle_id))),
                "seconds": round(time.perf_counter() - began, 3),
            }
        )

    return model_bundle
