"""To replan: what the world contradicts is noticed, and another way is looked for."""
