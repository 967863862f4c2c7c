"""Models by name: the catalogue, where files are kept, and how they get there.

`resolve.ensure` is what the rest of the program wants: a file, a catalogue name or hf:OWNER/REPO/FILE in, a path out.
"""
