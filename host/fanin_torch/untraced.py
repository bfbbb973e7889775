"""Keeps torch.compile's tracer out of the group's methods, whose threads and descriptors are not the program's."""

from inspect import isfunction


def leave_untraced(*classes: type) -> None:
    """Run the methods of these classes, and what they call, untraced; compiled DDP fails with a torch that can not."""
    try:
        from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
    except ImportError:
        return
    strategy = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
    for method in (method for each in classes for method in vars(each).values() if isfunction(method)):
        set_code_exec_strategy(method.__code__, strategy)
