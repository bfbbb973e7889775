"""`fanin verbs-lib`, `fanin nccl-lib` and `fanin sharp-prefix`: where libraries are that other programs load."""

from pathlib import Path

from fanin_tools.cli import options
from fanin_tools.cli.output import print_json, reporting


def _show(path: Path, json_output: bool) -> None:
    if json_output:
        print_json({"path": str(path)})
    else:
        print(path)


@reporting
def verbs_lib(json_output: options.Json = False) -> None:
    """Print the path of the verbs library: LD_PRELOAD=$(fanin verbs-lib) ibv_devinfo."""
    from fanin.verbs_lib import library_path

    _show(library_path(), json_output)


@reporting
def nccl_lib(json_output: options.Json = False) -> None:
    """Print the path of the plugin for NCCL: NCCL_NET_PLUGIN=$(fanin nccl-lib) NCCL_COLLNET_ENABLE=1 torchrun ..."""
    from fanin.nccl_lib import library_path

    _show(library_path(), json_output)


@reporting
def sharp_prefix(json_output: options.Json = False) -> None:
    """Print the folder of libsharp_coll and its header, for UCC: ./configure --with-sharp=$(fanin sharp-prefix) ..."""
    from fanin.sharp_lib import prefix

    _show(prefix(), json_output)
