"""Public data sets: the source of each, and its download into the folder that `--data` reads.

for item in CATALOGUE:
    print(item.name, item.licence)
get("fsdd", Path("data"))
"""

from devmind.datasets.catalogue import CATALOGUE, DataSet, Remote, find
from devmind.datasets.fetch import get

__all__ = ["CATALOGUE", "DataSet", "Remote", "find", "get"]
