"""The skill balance: to keep a pole up."""
