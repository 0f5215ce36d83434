"""The command line: ``memvec COMMAND``."""

from memvec.cli._main import main

__all__ = ["main"]
