"""What is shown of one tick: pictures, overlays and how sure they may be, and what was heard."""
