"""To carry out an instruction by a plan in symbols."""
