"""The skill navigate: paths through partly visible rooms, on a map that is carried along."""
