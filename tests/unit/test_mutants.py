"""``make test-night PARTS=mutants`` plants faults in these lines: they are still what the faults are about."""

from tests.mutants.mutants import MUTANTS, REPO


def test_every_fault_can_be_planted() -> None:
    for mutant in MUTANTS:
        compile(mutant.planted(REPO), mutant.file, "exec")
        for test in mutant.tests:
            assert (REPO / test).exists(), f"{mutant.name}: {test} is gone"
