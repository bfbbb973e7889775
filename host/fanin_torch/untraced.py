"""torch.compile leaves methods of the group alone, which compiled programs call by way of torch's own C++: its tracer
would take them for a part of the program, and their threads and descriptors are none."""

from inspect import isfunction


def leave_untraced(*classes: type) -> None:
    """Let the methods of these classes run as they are, with all that they call. With a torch that can not be told so,
    compiled DDP fails."""
    try:
        from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
    except ImportError:
        return
    strategy = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
    for method in (method for each in classes for method in vars(each).values() if isfunction(method)):
        set_code_exec_strategy(method.__code__, strategy)
