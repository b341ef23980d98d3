"""To follow an instruction."""
