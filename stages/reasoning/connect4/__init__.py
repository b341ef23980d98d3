"""Connect-4: what is taught by self-play, and examined on positions whose moves a solver has judged."""
