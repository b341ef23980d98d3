"""The live page's server: one port on this machine, who may come in, and what goes to whoever looks."""
