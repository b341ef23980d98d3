"""Part of `echo`: speech in noise, without the noise."""
