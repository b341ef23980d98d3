"""The caregiver: what she says, and with which voices."""
