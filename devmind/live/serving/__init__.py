"""The live page's server: one port on this machine, its access control, and the views for every viewer."""
