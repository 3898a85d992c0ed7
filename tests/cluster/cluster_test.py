#!/usr/bin/env python3
"""Steps of the cluster of processes, projected from the committed measurements, keep their bars: without
running the trainer."""

import os
import sys
import unittest

SOURCE = os.environ["ERATOS_SOURCE_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import accuracy_cluster as cluster  # noqa: E402

BINARY = os.environ["ERATOS_BINARY"]


class Bars(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = cluster.rows_of(BINARY)
        cls.reduced = cluster.rows_of(BINARY, cluster.REDUCED)

    def test_enough_jobs(self):
        self.assertGreaterEqual(len(self.rows), 16)
        self.assertEqual({row["name"] + ".yaml" for row in self.rows}, set(os.listdir(cluster.CONFIGS)))

    def test_from_one_process_at_local_shapes(self):
        self.assertEqual(cluster.faults(self.rows), [])

    def test_from_the_small_job(self):
        self.assertEqual(cluster.faults(self.reduced), [])

    def test_restored_terms_are_the_step(self):
        for row in self.reduced:
            terms = row["answer"]["hybrid"]["restored"]
            self.assertAlmostEqual(sum(term["seconds_s"] for term in terms), row["hybrid"], places=6)

    def test_rank_correlation(self):
        # Three steps of which two change places: 1 - 6 * 2 / (3 * 8) = 0.5.
        self.assertAlmostEqual(cluster.spearman([1, 2, 3], [10, 30, 20]), 0.5)

    def test_small_job_is_small(self):
        for piece in cluster.read(cluster.REDUCED)["pieces"]:
            self.assertEqual((piece.get("tp", 1), piece.get("ep", 1)), (1, 1), piece["id"])


if __name__ == "__main__":
    unittest.main()
