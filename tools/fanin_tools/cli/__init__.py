"""The subcommands of `fanin`: options in, result out. What they do lies in the other packages."""
