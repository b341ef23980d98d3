"""A camera in a process of its own, or on another computer, pushed to a feed. It needs no torch.

python docs/feed_webcam.py 127.0.0.1:4711 spool/token 600 [CAMERA] [HZ]

CAMERA is a number, a file or an address, as for `devmind live --camera`. What is pushed is what an agent in front of it
would sense: the picture in the middle of its gaze, the change in the wide view, and where it looks.
"""

import sys
from pathlib import Path

from devmind.feed import Client, Row
from devmind.moment import Action, Moment
from devmind.worlds.room import Room
from sensors.webcam import Webcam

EPISODE = 100
"""Moments after which an episode begins anew: lessons read whole episodes."""

address, token, seconds = sys.argv[1:4]
source, hz = (*sys.argv[4:], *("0", "10")[len(sys.argv) - 4 :])
with Webcam(source) as camera, Client(address, "webcam", token=Path(token), world="room") as feed:
    room = Room({"webcam": camera}, float(hz))
    (senses, info), in_a_row = room.reset(), 0
    while info["time_s"] < float(seconds):
        if "periphery" in senses:  # two pictures in a row have come; nothing is pushed while none comes
            feed.push([Row(0, Moment(info["time_s"], senses, first=in_a_row % EPISODE == 0), Action())])
        in_a_row = in_a_row + 1 if "periphery" in senses else 0
        senses, _, _, _, info = room.step({})
    feed.flush()
    print(feed.status())
