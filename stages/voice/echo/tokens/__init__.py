"""Of echo: what is heard as a row of the codec's codes, each foretold by those before it."""
