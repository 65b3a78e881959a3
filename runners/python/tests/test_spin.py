"""Waiting for the next message without going to sleep."""

import socket
import threading
import time
import unittest

import support  # noqa: F401, finds the package
from carton_runner.spin import Spin


class Spins(unittest.TestCase):
    def setUp(self):
        self.ours, self.theirs = socket.socketpair()
        self.addCleanup(self.ours.close)
        self.addCleanup(self.theirs.close)
        self.spin = Spin(self.ours.fileno())
        self.spin._has_cores = True
        self.tries = 0
        spin = self.spin._spin

        def counted():
            self.tries += 1
            return spin()

        self.spin._spin = counted

    def wait(self, delay=0.0):
        """Waits for a byte that comes after ``delay`` seconds."""
        if delay:
            timer = threading.Timer(delay, self.theirs.send, (b"x",))
            timer.start()
            self.addCleanup(timer.join)
        else:
            self.theirs.send(b"x")
        self.spin.wait()
        self.assertEqual(self.ours.recv(1, socket.MSG_DONTWAIT), b"x")

    def test_what_is_there_is_found_each_time(self):
        for _ in range(200):
            self.wait()
        self.assertEqual(self.tries, 200)

    def test_it_does_not_spin_where_messages_come_late(self):
        for _ in range(5):
            self.wait(0.005)
        self.assertEqual(self.tries, 3)

    def test_it_tries_again_now_and_then(self):
        for _ in range(3):
            self.wait(0.005)
        for _ in range(100):
            self.wait()
        self.assertGreater(self.tries, 3)

    def test_the_end_of_the_connection_is_found(self):
        closing = threading.Timer(0.01, self.theirs.shutdown, (socket.SHUT_RDWR,))
        closing.start()
        start = time.monotonic()
        self.spin.wait()
        closing.join()
        self.assertEqual(self.ours.recv(1), b"")
        self.assertLess(time.monotonic() - start, 5)

    def test_nobody_spins_on_the_only_core(self):
        self.spin._has_cores = False
        self.wait()
        self.assertEqual(self.tries, 0)


if __name__ == "__main__":
    unittest.main()
