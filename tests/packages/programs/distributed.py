# A cluster of processes of this machine, which talk over TCP.
# part: slow
# requires: distributed==2026.8.0
from distributed import Client, LocalCluster


def square(number):
    return number**2


def run():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        return {"numbers": client.gather(client.map(square, range(10)))}
