"""Learners: LightningModules that consume batches and improve an agent."""
