"""The skill navigate: ways through rooms that are seen in part, on a map that is carried along."""
