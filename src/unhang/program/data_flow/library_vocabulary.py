"""Names of library functions and members that say how a value of theirs may differ by rank."""

from __future__ import annotations

from unhang.program.data_flow.rank_names import PASSES_ON

PROGRESS_WRAPPERS = {"tqdm", "track"}
"""Their other arguments say whether a bar is drawn."""


FILE_QUESTIONS = {"exists", "isfile", "isdir", "islink", "is_file", "is_dir", "is_symlink", "lexists", "iterdir"}


CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "time_ns"}


NUMBER_QUESTIONS = {"isnan", "isinf", "isfinite"}


MASKING_CALLS = {"nonzero", "masked_select", "bool", "argwhere"}


TENSOR_METHODS = PASSES_ON | {
    "tensor",
    "as_tensor",
    "Tensor",
    "to",
    "cuda",
    "cpu",
    "detach",
    "clone",
    "full",
    "numel",
    "size",
}


STRUCTURE_QUESTIONS = {
    "isinstance",
    "hasattr",
    "callable",
    "type",
    "issubclass",
    "dim",
    "ndimension",
    "get_device",
    "is_tensor",
}


NUMBER_ATTRIBUTES = {"shape", "data", "loss", "losses", "grad", "T", "values"}
"""Attributes that hold numbers of what they belong to; any other may be a setting."""


STRUCTURE_ATTRIBUTES = {"dtype", "device", "ndim", "requires_grad", "is_cuda"}


DISTRIBUTED_QUESTIONS = {
    *("is_initialized", "is_available", "is_distributed", "is_dist_avail_and_initialized", "is_dist_initialized"),
    *("distributed", "is_dist", "use_dist", "is_ddp", "use_ddp", "is_multi_gpu", "is_dist_available"),
    *("is_torchelastic_launched", "use_distributed", "is_distributed_initialized"),
}


ENGINE_NAMES = {"accelerator", "fabric"}
"""A job of several ranks that asks for one of these has it."""


WORLD_SIZES = {"world_size", "get_world_size", "num_processes", "WORLD_SIZE", "get_num_processes", "n_gpus_total"}


KEEPS_ITEMS = {"dict", "items", "keys", "values", "copy", "deepcopy", "defaultdict", "OrderedDict"}
