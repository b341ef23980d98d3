"""The skill foresee: how tokens change until the next Moment."""
