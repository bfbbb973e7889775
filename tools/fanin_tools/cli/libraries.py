"""`fanin mpi-lib`, `verbs-lib`, `nccl-lib` and `sharp-prefix`: where libraries lie that programs preload."""

from pathlib import Path
from typing import Annotated

from fanin_tools.cli import files, options
from fanin_tools.cli.output import print_json, reporting

LaunchAgent = Annotated[
    Path | None,
    files.output_file(
        help="Also write a script that mpirun can call instead of ssh to enter the namespaces of a fabric."
    ),
]


@reporting
def mpi_lib(
    launch_agent: LaunchAgent = None, name: options.Name = "default", json_output: options.Json = False
) -> None:
    """Print the path of the MPI shim: LD_PRELOAD=$(fanin mpi-lib) mpirun -n 4 PROGRAM."""
    from fanin.mpi import library_path

    path = library_path()
    if launch_agent is not None:
        _write_agent(name, launch_agent)
    if json_output:
        print_json({"path": str(path)} | ({"launch_agent": str(launch_agent)} if launch_agent else {}))
    else:
        print(path)


def _write_agent(name: str, path: Path) -> None:
    from fanin_tools.errors import ToolError
    from fanin_tools.fabric import lifecycle
    from fanin_tools.launch import launch_agent

    running = lifecycle.find(name)
    if running is None or not running.fabric.netns:
        remedy = f"bring one up: fanin fabric up --netns --name {name}"
        raise ToolError("NO_FABRIC", f"there is no fabric {name} in namespaces", remedy)
    try:
        launch_agent.write(running.fabric, path)
    except OSError as error:
        remedy = "name a file in a folder that you may write to"
        raise ToolError("PERMISSION_DENIED", f"{path} can not be written: {error.strerror}", remedy) from error


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


def _show(path: Path, json_output: bool) -> None:
    if json_output:
        print_json({"path": str(path)})
    else:
        print(path)
