"""The skill startle: to withdraw from a bang or a looming object, and only then."""
