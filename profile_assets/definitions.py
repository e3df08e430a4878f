"""What workspace.yaml loads: the graph of the profile that PROFILE_CONFIG names."""

from profile_assets.orchestration.build import build_definitions
from profile_assets.profile import load_deployment

defs = build_definitions(load_deployment())
