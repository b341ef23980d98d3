"""Sensors: plugins, one file each; cv2, pyaudio, serial and paho are imported inside the one file that needs them.

`frames`, `series` and `device` hold what the others share: the newest frame, a ring of samples with time stamps, and
the thread that opens a device, reads it and asks again when it goes away. `portaudio` opens sound devices, `links` are
where `environment` gets its messages. These import none of the sensors.
"""
