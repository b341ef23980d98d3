"""Memory while living: names taught by showing, recall for each Moment, and the choice of Moments to keep."""
