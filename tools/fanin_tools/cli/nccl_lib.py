"""`fanin nccl-lib`."""

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting


@reporting
def nccl_lib(json_output: options.Json = False) -> None:
    """Print the path of the plugin for NCCL: NCCL_NET_PLUGIN=$(fanin nccl-lib) NCCL_COLLNET_ENABLE=1 torchrun ..."""
    from fanin.nccl_lib import library_path

    if json_output:
        print_json({"path": str(library_path())})
    else:
        print(library_path())
