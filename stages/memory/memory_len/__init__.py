"""The skill memory_len: a sign seen once is named many steps later."""
