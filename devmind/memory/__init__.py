"""Long-term memory: experience and taught examples, kept on disk and found again by keys.

It takes keys and gives entries; the agent that makes the keys is never imported here.

>>> memory = Memory(open_store("memory"))
>>> memory.write(moment, keys, importance=1.0)
>>> for entry in memory.recall(keys, k=4):
...     print(entry.name, entry.time_s, entry.senses)
"""

from devmind.memory.entry import Entry, Filters, Key, Pointer
from devmind.memory.episodic import Memory
from devmind.memory.forgetting import Budget
from devmind.memory.names import Named, Names
from devmind.memory.scoring import Weights
from devmind.memory.similarity import Strangers
from devmind.memory.stores import Store, folder_of, open_store
from devmind.memory.tables import Changes, Facts, KeyRows, Sizes

__all__ = [
    "Budget",
    "Changes",
    "Entry",
    "Facts",
    "Filters",
    "Key",
    "KeyRows",
    "Memory",
    "Named",
    "Names",
    "Pointer",
    "Sizes",
    "Store",
    "Strangers",
    "Weights",
    "folder_of",
    "open_store",
]
