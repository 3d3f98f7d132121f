"""The commands that this package adds to ``attnflow``."""

from attnflow_experiments.commands.bench import bench
from attnflow_experiments.commands.reproduce import reproduce
from attnflow_experiments.commands.train import train

COMMANDS = (bench, reproduce, train)

__all__ = ["COMMANDS"]
