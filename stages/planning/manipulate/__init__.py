"""Handling the nursery's things by imagined plans: pushing, grasping and lifting, putting into a box."""
