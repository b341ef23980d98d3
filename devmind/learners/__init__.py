"""Learners: they consume batches and improve an agent, by gradient or otherwise; none knows Lightning."""
