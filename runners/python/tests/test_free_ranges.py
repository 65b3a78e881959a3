"""The allocator of one region."""

import random
import unittest

import support  # noqa: F401, finds the package
from carton_runner.free_ranges import FreeRanges

SIZE = 1 << 16


class Ranges(unittest.TestCase):
    def test_they_never_overlap_and_all_come_back(self):
        for seed in range(30):
            generator = random.Random(seed)
            free = FreeRanges(SIZE)
            taken = []
            for _ in range(300):
                if taken and generator.random() < 0.45:
                    free.give_back(*taken.pop(generator.randrange(len(taken))))
                    continue
                length = generator.randrange(1, 9000)
                alignment = generator.choice((64, 4096))
                offset = free.take(length, alignment)
                if offset is None:
                    continue
                self.assertEqual(offset % alignment, 0)
                self.assertLessEqual(offset + length, SIZE)
                for start, size in taken:
                    self.assertTrue(start + size <= offset or offset + length <= start)
                taken.append((offset, length))
            for entry in taken:
                free.give_back(*entry)
            self.assertEqual(free.as_pairs(), [(0, SIZE)])

    def test_it_says_when_it_is_full(self):
        free = FreeRanges(128)
        self.assertEqual(free.take(64, 64), 0)
        self.assertEqual(free.take(64, 64), 64)
        self.assertIsNone(free.take(1, 64))


if __name__ == "__main__":
    unittest.main()
