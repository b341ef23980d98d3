"""The caregiver: who speaks to the child, and how."""
