"""One module an ecosystem, each with an extra of its own.

Import what you use: ``memvec.integrations.sklearn`` needs ``memvec[sklearn]``, and so on.
docs/integrations.md has a screen on each.
"""

__all__: list[str] = []
