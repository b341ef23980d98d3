#!/usr/bin/env bash
# Expected: a ROS 2 recording whose recorder was killed is a SQLite database and its write-ahead log; a reader of bags,
#   like any SQLite client, sees what was committed to the log.
# Happens: rosbags opens the database as immutable, so SQLite does not look at the log. Ten committed messages are read
#   as none, without an error or a warning; after a checkpoint all ten are there.
# Version: rosbags 0.11.9 (rosbag2/storage_sqlite3.py opens "file:...?immutable=1"), SQLite of apsw. Seen by running it.
# Matters: rosbag2's storage preset `resilient` writes with a log, and recorders of robots are killed by their batteries;
#   an agent raised on such recordings misses their ends.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check rosbags==0.11.9 apsw==3.53.1.0
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import shutil
import sqlite3
from pathlib import Path

import rosbags
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

store = get_typestore(Stores.ROS2_HUMBLE)
number = store.types["std_msgs/msg/Float64"]
with Writer("bag", version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
    connection = writer.add_connection("/temperature", number.__msgtype__, typestore=store)
[database] = Path("bag").glob("*.db3")

recorder = sqlite3.connect(database)
recorder.execute("PRAGMA journal_mode = WAL")
for k in range(10):
    data = bytes(store.serialize_cdr(number(data=20.0 + k), number.__msgtype__))
    recorder.execute("INSERT INTO messages (topic_id, timestamp, data) VALUES (1, ?, ?)", (k, data))
recorder.commit()
killed = Path(shutil.copytree("bag", "killed"))  # what is left of a recorder that died here
recorder.close()


def count(path):
    with Reader(path) as reader:
        return len(list(reader.messages()))


[left] = killed.glob("*.db3")
log = left.with_name(left.name + "-wal").stat().st_size
client = sqlite3.connect(f"file:{shutil.copytree(killed, 'copy')}/{left.name}", uri=True)
seen_by_sqlite = client.execute("SELECT count(*) FROM messages").fetchone()[0]
client.close()
before = count(left)
mended = sqlite3.connect(left)
mended.execute("PRAGMA wal_checkpoint(TRUNCATE)")
mended.close()
after = count(left)
print(f"log of {log:,} bytes; sqlite3 sees {seen_by_sqlite} messages, rosbags {before}; after a checkpoint {after}")
assert (log > 0, seen_by_sqlite, before, after) == (True, 10, 0, 10), "the behaviour has changed"
PYTHON
echo "as stated: rosbags 0.11.9 reads past the log"
