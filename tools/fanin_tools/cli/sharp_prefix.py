"""`fanin sharp-prefix`."""

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting


@reporting
def sharp_prefix(json_output: options.Json = False) -> None:
    """Print the folder of libsharp_coll and its header, for UCC: ./configure --with-sharp=$(fanin sharp-prefix) ..."""
    from fanin.sharp_lib import prefix

    if json_output:
        print_json({"path": str(prefix())})
    else:
        print(prefix())
