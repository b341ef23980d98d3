"""Carrying out an instruction by a plan in symbols."""
