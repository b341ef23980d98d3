"""What an agent of the stage voice does in a life: it hears words, answers aloud, and makes sound of what it heard."""
