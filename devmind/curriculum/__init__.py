"""Stages, skills, exams, gates, and the runner that walks them."""
