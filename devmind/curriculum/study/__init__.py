"""Studies: several ways to raise an agent, each over several seeds, compared as a file said beforehand."""
