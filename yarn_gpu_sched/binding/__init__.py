"""How a container learns which GPUs are its own: one small file a container, in a directory of their own.

`Binding` and `Refusal` are what a file says, `render` and `parse` its format, `BindingFiles` the directory. Whoever knows the GPUs
of containers writes it: the service on its own machine, a node monitor on its server. `bind_gpus.sh` reads it.
"""

from yarn_gpu_sched.binding.binding import Binding, Refusal, UnfitBinding, parse, render
from yarn_gpu_sched.binding.binding_files import BindingFiles, UnfitDirectory, is_file_name
from yarn_gpu_sched.binding.checkpoint_files import CheckpointFiles

__all__ = [
    "Binding",
    "BindingFiles",
    "CheckpointFiles",
    "Refusal",
    "UnfitBinding",
    "UnfitDirectory",
    "is_file_name",
    "parse",
    "render",
]
