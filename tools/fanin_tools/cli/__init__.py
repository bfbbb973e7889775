"""The command line `fanin`: one module for each subcommand, which parses options and prints results."""
