"""Name, answer and converse, batch by batch; reading and following come in between."""
