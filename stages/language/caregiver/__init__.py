"""The caregiver, a scripted speaker: what she says, and how she takes turns."""
