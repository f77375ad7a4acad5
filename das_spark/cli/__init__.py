"""The command line: everything that talks to a person. One module a group of commands; nothing here computes."""
