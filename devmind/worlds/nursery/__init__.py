"""The nursery: a small simulated room that is seen, heard and touched, as `NurseryRules(level)`."""

from devmind.worlds.nursery.levels import LEVELS as LEVELS
from devmind.worlds.nursery.levels import NurseryLevel as NurseryLevel
from devmind.worlds.nursery.rules import NurseryRules as NurseryRules
from devmind.worlds.nursery.state import NurseryState as NurseryState
