"""What is shown of one tick: pictures, overlays with their confidence, and sound."""
