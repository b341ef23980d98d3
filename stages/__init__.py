"""devmind's own stages: plugins like anybody's, found by entry point."""
