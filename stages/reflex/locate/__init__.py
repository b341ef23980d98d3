"""The skill locate: boxes, masks and depth of things in unseen rooms."""
