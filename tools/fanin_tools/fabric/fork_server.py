"""Fork server: loads the device code once, then forks a child for each device of a fabric.

`python -m fanin_tools.fabric.fork_server NAME [DEVICE...]` reads the description from the state folder of the fabric
NAME. While it compiles code that is not in the cache, it prints COMPILING every second. Then it prints "DEVICE PID" for
each device, or each that is named, and ends; the devices stay. A device begins when it has read one byte from the
input, which the caller writes when it has recorded all processes, so that none is left without a record.
"""

import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
import traceback
from typing import NoReturn

from fanin_tools.fabric import namespaces, simulated_switch
from fanin_tools.fabric.description import RTL, Device, Fabric
from fanin_tools.fabric.state import FabricState
from fanin_tools.fabric.tree import listeners, parent_group
from fanin_wire.settings import DeviceSettings

MODULE = "fanin_tools.fabric.fork_server"
COMPILING = "compiling"
COMPILER = "fanin_nic.daemon.precompile"
ANNOUNCEMENT_SECONDS = 1.0
PR_SET_NAME = 15  # include/uapi/linux/prctl.h


def device_settings(device: Device, fabric: Fabric, state: FabricState) -> DeviceSettings:
    return DeviceSettings(
        name=device.name,
        address=device.address,
        socket=str(state.socket(device.name)),
        mtu=fabric.path_mtu,
        port=device.port,
        rdma=device.rdma,
        token_file=device.token_file,
        slots=device.slots,
        lanes=fabric.lanes,
        detection=fabric.detection,
        group=device.group,
        group_size=len(listeners(fabric, device)) if device.group else 0,
        parent_group=parent_group(fabric, device),
    )


def load() -> None:
    """Load the device's compiled code. If it is not in the cache, another process compiles it: the compiler takes 700
    MB of memory, which the devices would keep."""
    from fanin_nic.native.compiled import COMPLETE

    if not COMPLETE.exists():
        _compile()
    from fanin_nic.daemon import main, precompile

    assert main is not None
    precompile.precompile()


def _compile() -> None:
    """Compile into the cache, and announce it every second. If that fails, this process ends."""
    nothing = subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-m", COMPILER], stdin=nothing, stdout=nothing) as compiler:
        code = None
        while code is None:
            print(COMPILING, flush=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = compiler.wait(ANNOUNCEMENT_SECONDS)
    if code:
        sys.exit(code)


def _run_device(device: Device, fabric: Fabric, state: FabricState) -> NoReturn:
    """In the child: wait until the process is recorded, then run the daemon, with its output in its log."""
    code = 1
    os.dup2(2, 1)  # the caller reads the standard output until it ends
    try:
        if os.read(0, 1):
            _detach(device, fabric, state)
            code = _serve(device, fabric, state)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _detach(device: Device, fabric: Fabric, state: FabricState) -> None:
    """Give the process its own process group, log, name and network, and let it ignore SIGHUP.

    It stays in its session: Linux divides cores among sessions first (autogroup), so a device in a session of its own
    would not yield its core to ranks of another.
    """
    os.setpgid(0, 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = os.open(state.log(device.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    ctypes.CDLL(None).prctl(PR_SET_NAME, device.name.encode(), 0, 0, 0)
    if fabric.netns:
        namespaces.enter(namespaces.namespace(fabric, device.host))


def _serve(device: Device, fabric: Fabric, state: FabricState) -> int:
    if device.model == RTL:
        return simulated_switch.serve(device_settings(device, fabric, state))
    from fanin_nic.daemon import main

    return main.serve(device.kind, device_settings(device, fabric, state))


def main() -> None:
    state = FabricState(sys.argv[1])
    fabric = state.required_description()
    load()
    gc.freeze()  # so that the collector does not write to shared pages
    for device in fabric.daemons:
        if sys.argv[2:] and device.name not in sys.argv[2:]:
            continue
        process = os.fork()
        if process == 0:
            _run_device(device, fabric, state)
        print(device.name, process, flush=True)


if __name__ == "__main__":
    main()
