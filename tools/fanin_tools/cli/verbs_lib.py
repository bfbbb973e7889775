"""`fanin verbs-lib`."""

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting


@reporting
def verbs_lib(json_output: options.Json = False) -> None:
    """Print the path of the verbs library: LD_PRELOAD=$(fanin verbs-lib) ibv_devinfo."""
    from fanin.verbs_lib import library_path

    if json_output:
        print_json({"path": str(library_path())})
    else:
        print(library_path())
