"""Part of `echo`: sound as a row of the codec's codes, each predicted from those before it."""
