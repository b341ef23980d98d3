"""Learners take batches and improve an agent, by gradient or otherwise; none depends on Lightning."""
