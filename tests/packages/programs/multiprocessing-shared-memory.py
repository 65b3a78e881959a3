# Memory with a name, queues, and executors.
# part: quick
# requires:
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory


def double(name, queue):
    block = shared_memory.SharedMemory(name)
    block.buf[0] *= 2
    block.close()
    queue.put(7)


def run():
    context = multiprocessing.get_context("spawn")
    block = shared_memory.SharedMemory(create=True, size=1000)
    block.buf[0] = 21
    queue = context.Queue()
    worker = context.Process(target=double, args=(block.name, queue))
    worker.start()
    received = queue.get(timeout=60)
    worker.join()
    doubled = block.buf[0]
    block.close()
    block.unlink()
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        return {"numbers": [received, doubled, *executor.map(abs, [-1, -2, -3])]}
