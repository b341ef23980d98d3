from devmind.agent.encoders import SightEncoder, as_planes  # noqa: F401  # the name under which older installations know it
