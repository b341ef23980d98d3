"""Reinforcement of the planner: values of strides by implicit Q-learning, and a denoiser taught by returns."""
