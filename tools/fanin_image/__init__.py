"""Images of Fanin for containers, made on a machine of Debian's: `python -m fanin_image`, from a checkout."""
