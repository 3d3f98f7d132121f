"""A Ray cluster on this machine: prints its address, and ends when its input is closed."""

import sys

import ray

ray.init(
    address="local",
    num_cpus=2,
    object_store_memory=80 << 20,
    include_dashboard=False,
    log_to_driver=False,
    logging_level="error",
)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
