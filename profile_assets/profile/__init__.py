"""The profile: one TOML file that says everything about the score of a deployment.

`load_deployment` reads it, reports *every* mistake in it at once (the field's path, what is wrong, the remedy) and
returns a frozen value that hands each room the plain dataclass it works with. No room knows TOML or pydantic.
"""

from profile_assets.profile.deployment import Deployment
from profile_assets.profile.fields import Profile
from profile_assets.profile.loading import load_deployment, load_profile, open_deployment

__all__ = ["Deployment", "Profile", "load_deployment", "load_profile", "open_deployment"]
