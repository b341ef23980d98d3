#!/usr/bin/env bash
# Expected: a ROS 2 bag's topic is found by its name and type; the quality of service that its publishers offered is a
#   remark, which reindexing, converting or another release may write in another form.
# Happens: rosbags' reader of a folder gives a topic's messages only where metadata.yaml and the file tell equal profiles.
#   Where they differ the topic is listed, with its count of messages, and gives none, without an error or a warning;
#   the same file given without its folder gives all.
# Version: rosbags 0.11.9 (rosbag2/reader.py compares `ext`). Seen by running it; rosbag2's own test bag `talker` differs.
# Matters: one camera or gripper of a robot's recording is missing from what an agent learns from, and nothing says so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check rosbags==0.11.9
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import sqlite3
from pathlib import Path

from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

store = get_typestore(Stores.ROS2_HUMBLE)
number = store.types["std_msgs/msg/Float64"]
with Writer("bag", version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
    for topic in ("/temperature", "/pressure"):
        connection = writer.add_connection(topic, number.__msgtype__, typestore=store)
        for k in range(10):
            writer.write(connection, k, store.serialize_cdr(number(data=float(k)), number.__msgtype__))
[database] = Path("bag").glob("*.db3")
time = "{sec: 9223372036, nsec: 854775807}"
profile = (
    f"[{{history: 1, depth: 10, reliability: 1, durability: 2, deadline: {time}, lifespan: {time}, liveliness: 1, "
    f"liveliness_lease_duration: {time}, avoid_ros_namespace_conventions: false}}]"
)
with sqlite3.connect(database) as recorder:
    recorder.execute("UPDATE topics SET offered_qos_profiles = ? WHERE name = '/temperature'", (profile,))
recorder.close()


def counts(path):
    """By topic, (messages that it says it has, messages that it gives)."""
    with Reader(path) as reader:
        given = [connection.topic for connection, _, _ in reader.messages()]
        return {topic: (about.msgcount, given.count(topic)) for topic, about in reader.topics.items()}


folder, file = counts("bag"), counts(database)
print(f"folder: {folder}; the file in it alone: {file}")
assert folder == {"/pressure": (10, 10), "/temperature": (10, 0)}, "the behaviour has changed"
assert file == {"/pressure": (10, 10), "/temperature": (10, 10)}, "the behaviour has changed"
PYTHON
echo "as stated: rosbags 0.11.9 lists ten messages and gives none"
