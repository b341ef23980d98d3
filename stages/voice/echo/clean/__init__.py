"""Of echo: what was said in noise, without the noise."""
