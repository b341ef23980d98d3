"""The stage voice: to hear words, and to say again what was heard."""
