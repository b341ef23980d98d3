"""The stage planning: imagining a way before going it; see `stage.py`."""
