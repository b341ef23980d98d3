"""The live agent: it senses and answers in real time, and people teach it by showing."""
