"""One module per ecosystem, each with its own extra.

Import what you use: ``memvec.integrations.sklearn`` needs ``memvec[sklearn]``, and so on.
docs/integrations.md has an example of each.
"""

__all__: list[str] = []
