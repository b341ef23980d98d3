"""Sensors: plugins, one file each; cv2, pyaudio, serial and paho are imported inside the one file that needs them.

`frames`, `series` and `device` hold the common parts: the newest frame, a ring of samples with time stamps, and the
thread that opens a device, reads it and opens it again when it disappears. `portaudio` opens sound devices, and `links`
are the sources of `environment`. These import none of the sensors.
"""
