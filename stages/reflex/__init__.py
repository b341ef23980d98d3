"""The first stage: senses that see, hear and bind; reflexes that turn, track, reach, withdraw and balance."""
