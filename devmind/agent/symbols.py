from devmind.agent.encoders import BoardEncoder, WordsEncoder  # noqa: F401  # the name under which older installations know it
