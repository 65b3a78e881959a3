# A process that holds objects for others.
# part: quick
# requires:
import multiprocessing


def add(shared, lock, number):
    with lock:
        shared["sum"] = shared.get("sum", 0) + number


def run():
    with multiprocessing.Manager() as manager:
        shared, lock = manager.dict(), manager.Lock()
        workers = [multiprocessing.Process(target=add, args=(shared, lock, number)) for number in (1, 2, 3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return {"numbers": [shared["sum"], *(worker.exitcode for worker in workers)]}
