"""A Ray cluster of a head without processors and one machine, which dies and comes when told."""

import sys

from ray.cluster_utils import Cluster

SMALL = {"object_store_memory": 80 << 20}
cluster = Cluster(True, head_node_args={"num_cpus": 0, "include_dashboard": False, **SMALL})
machine = cluster.add_node(num_cpus=2, **SMALL)
print(cluster.address, flush=True)
for line in sys.stdin:
    if line == "die\n":
        cluster.remove_node(machine, allow_graceful=False)
    else:
        machine = cluster.add_node(num_cpus=2, **SMALL)
    print("done", flush=True)
cluster.shutdown()
