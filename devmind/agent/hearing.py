from devmind.agent.encoders import SeriesEncoder, SoundEncoder  # noqa: F401  # the name under which older installations know it
