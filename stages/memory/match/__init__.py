"""The skill match: a thing seen or heard, a pause in which others come, then two things: which of them was it?"""
