"""Reinforcement of the planner: what strides are worth by implicit Q-learning, and a denoiser taught by returns."""
