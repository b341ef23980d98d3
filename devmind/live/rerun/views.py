"""Views of a life as a Rerun recording: picture, boxes, tones, curves and text, each at its tick and time.

Rerun shows the newest value of everything, however old, so values that no longer hold are cleared.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from devmind.live.serving.hub import Published
from devmind.live.viewing.drawing import WIDEST_PX, jpeg
from devmind.live.viewing.hearing import BANDS, COLUMNS

HEARD_COLUMNS = 60 * COLUMNS
"""Tones of the last 60 ticks: six seconds."""
STALE_S = 1.0
"""A camera may give fewer frames than there are ticks; an older picture is not what is seen."""
YELLOW, GREEN = (255, 210, 60), (90, 220, 120)


class RerunViews:
    """Logs one life's views to a stream.

    Args:
        stream: a `rerun.RecordingStream`; its timelines are `tick` and `life` (seconds since the life began).
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._shown: set[str] = set()
        self._last_texts: dict[str, str] = {}
        self._tones = np.zeros((BANDS, HEARD_COLUMNS), np.uint8)
        self._seen_s = -np.inf
        stream.set_log_tick_enabled(False)
        stream.send_blueprint(_layout())

    def show(self, published: Published) -> None:
        """Log the view of one tick; a view without a time only says that the life is paused."""
        view = published.view
        if "time_s" in view:
            self._stream.set_time("tick", sequence=view["tick"])
            self._stream.set_time("life", duration=view["time_s"])
            self._sight(published.frame, published.jpeg, view)
            self._sound(view.get("sound"))
            self._curves(view)
            self._texts(view)
        self._log_text("state", "paused" if view.get("paused") else "living")

    def _set(self, path: str, what: Any) -> None:
        """Log at `path`; None clears it, once."""
        import rerun as rr

        if what is not None:
            self._stream.log(path, what)
            self._shown.add(path)
        elif path in self._shown:
            self._stream.log(path, rr.Clear(recursive=False))
            self._shown.remove(path)

    def _sight(self, frame: np.ndarray | None, encoded: bytes | None, view: Mapping[str, Any]) -> None:
        import rerun as rr

        if frame is None:
            if view["time_s"] - self._seen_s > STALE_S:
                for path in [path for path in self._shown if path.startswith(("camera", "fovea"))]:
                    self._set(path, None)
            return
        self._seen_s = view["time_s"]
        self._set("camera", rr.EncodedImage(contents=encoded or jpeg(frame), media_type="image/jpeg"))
        overlays = view.get("overlays", {})
        self._boxes(frame.shape[1::-1], view.get("fovea"), overlays.get("boxes", {}).get("boxes", ()))
        for kind in ("masks", "depth"):
            png = overlays.get(kind, {}).get("png")
            picture = png and rr.EncodedImage(contents=base64.b64decode(png.partition(",")[2]), media_type="image/png")
            self._set(f"fovea/{kind}", picture)

    def _boxes(self, size_px: Sequence[int], fovea: Mapping[str, float] | None, boxes: Sequence[Any]) -> None:
        """The square of the gaze and the things in it, in pixels of the sent picture."""
        import rerun as rr

        if fovea is None:
            self._set("camera/fovea", None)
            self._set("camera/things", None)
            return
        size = np.array(size_px) * min(1.0, WIDEST_PX / max(size_px))
        corner, side = size * [fovea["x"], fovea["y"]], size * [fovea["w"], fovea["h"]]
        self._set("camera/fovea", rr.Boxes2D(mins=[corner], sizes=[side], colors=YELLOW, labels="fovea"))
        found = np.reshape(np.asarray(boxes, float), (-1, 5))
        things = rr.Boxes2D(
            mins=corner + found[:, :2] * side, sizes=(found[:, 2:4] - found[:, :2]) * side, colors=GREEN,
            labels=[f"{score:.2f}" for score in found[:, 4]],
        )  # fmt: skip
        self._set("camera/things", things if len(found) else None)

    def _sound(self, sound: Mapping[str, Any] | None) -> None:
        import rerun as rr

        columns = np.array(sound["mel"]) if sound and sound.get("mel") else np.zeros((COLUMNS, BANDS))
        newest = (255 * columns.T[::-1]).astype(np.uint8)
        self._tones = np.concatenate([self._tones, newest], 1)[:, -HEARD_COLUMNS:]
        picture = rr.EncodedImage(contents=jpeg(np.dstack([self._tones] * 3)), media_type="image/jpeg")
        self._set("tones", picture if sound or self._tones.any() else None)

    def _curves(self, view: Mapping[str, Any]) -> None:
        import rerun as rr

        sound, names, surprise = (view.get(key) or {} for key in ("sound", "names", "surprise"))
        curves = {
            "sound/level_db": sound.get("level_db"),
            "sound/direction_deg": sound.get("direction_deg"),
            "loop/work_ms": view.get("work_ms"),
            "loop/skipped": view.get("skipped"),
            **{f"surprise/{sense}": surprise.get(sense) for sense in ("sight", "sound")},
            **{f"sure/{sense}": names.get(sense, {}).get("confidence") for sense in ("sight", "sound")},
        }
        for path, value in curves.items():
            self._set(path, None if value is None else rr.Scalars(float(value)))

    def _texts(self, view: Mapping[str, Any]) -> None:
        names = view.get("names", {})
        for sense in ("sight", "sound"):
            known = names.get(sense)
            said = known and (known.get("name") or f"not sure, nearest is {known.get('nearest')}")
            self._log_text(f"names/{sense}", said or "")
        self._log_text("arcs", ", ".join(view.get("arcs", ())))
        self._last_texts.pop("words", None)  # a repeated word was said again
        self._log_text("words", view.get("words", ""))

    def _log_text(self, path: str, text: str) -> None:
        """A line of text when it changes; a change to no text is not logged."""
        import rerun as rr

        if text and self._last_texts.get(path) != text:
            self._stream.log(f"texts/{path}", rr.TextLog(text))
        self._last_texts[path] = text


def _layout() -> Any:
    """The initial layout of Rerun's window: the picture, sound and health beside it, texts below."""
    import rerun.blueprint as rrb

    curves = [
        rrb.TimeSeriesView(origin=origin, name=name)
        for origin, name in (("sound", "sound"), ("surprise", "surprise"), ("sure", "how sure"), ("loop", "loop"))
    ]
    seen = rrb.Horizontal(
        rrb.Spatial2DView(origin="fovea/depth", name="depth"), rrb.Spatial2DView(origin="fovea/masks", name="shapes")
    )
    return rrb.Blueprint(
        rrb.Horizontal(
            rrb.Vertical(rrb.Spatial2DView(origin="camera", name="wide view"), seen, row_shares=[3, 1]),
            rrb.Vertical(rrb.Spatial2DView(origin="tones", name="tones"), rrb.Tabs(*curves), rrb.TextLogView(
                origin="texts", name="names, words, reflexes"
            )),
        ),
        rrb.TimePanel(state="collapsed"),
    )  # fmt: skip
