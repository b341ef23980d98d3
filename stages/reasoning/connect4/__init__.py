"""Connect-4: taught by self-play, examined on positions whose moves a solver has judged."""
