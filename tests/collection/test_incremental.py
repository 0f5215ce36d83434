"""After a few changes little is solved, with the result of solving everything."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clouds
import memvec
import naive
from memvec.collection._calibration import least_near
from memvec.collection._packed_table import PackedTable
from memvec.collection._promises import JointPromises
from memvec.guarantee import CalibrationTable
from strategies import seeds

DIM = 16
CENTRES = naive.unit_rows(np.random.default_rng(0).standard_normal((150, DIM)))
ROWS = clouds.around(CENTRES, 0.12, 1, 6000)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Three segments, one of which a priority cuts short; closed."""
    folder = tmp_path_factory.mktemp("incremental") / "template.mv"
    with memvec.open(folder, dim=DIM, similarity=0.7, seal_at=0) as collection:
        for start, stop in ((0, 2100), (2100, 4200), (4200, 4500)):
            collection.add(ROWS[start:stop])
            collection.seal(progress=False, merge=False)
    return folder


@pytest.fixture
def folder(template, quick_path):
    return shutil.copytree(template, quick_path / "things.mv")


def changed(collection, step, rng):
    """Add or delete some rows."""
    if step == "add":
        collection.add(ROWS[rng.integers(4500, 6000, 60)])
    else:
        living = [item.id for item in collection.items()]
        collection.delete(rng.choice(living, 40, replace=False).tolist())


def naive_rows(state, sample, least):
    """Return the table of a sample, from all that segments find, merged at once."""
    tables, first = [], 0
    segments = [part.rows for part in state.segments if part.n_alive]
    for part, places in zip(state.segments, sample.chosen, strict=True):
        numbers = dict(zip(places.tolist(), range(first, first + len(places)), strict=True))
        first += len(places)
        for segment in segments:
            if segment is part.rows:
                own = segment.index.calibration_table
                found = own and replace(own, keys=segment.keys[own.keys])
            else:
                asked = part.rows.vectors(part.rows.strangers)
                known = state.calibration[segment.number, part.rows.number].n_known
                found = segment.index.calibration_rows(asked)
                found = found.rows(found.queries < known)
                found = replace(found, keys=segment.keys[found.keys])
            if found:
                asks = np.isin(found.queries, places) & (found.cosines >= least)
                queries = [numbers[stranger] for stranger in found.queries[asks].tolist()]
                tables.append(replace(found.rows(asks), queries=np.array(queries, dtype=int)))
    keys = state.waiting.keys[sample.waiting]
    vectors = state.waiting.rows.vectors(sample.waiting)
    for segment in segments:
        if len(keys):
            found = segment.index.calibration_rows(vectors)
            found = replace(found, queries=first + found.queries, keys=segment.keys[found.keys])
            tables.append(found.rows(found.cosines >= least))
    return CalibrationTable.merged(tables)


def columns(table):
    return {name: getattr(table, name).tolist() for name in CalibrationTable.__dataclass_fields__}


@settings(
    deadline=None,
    max_examples=3,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=seeds, steps=st.lists(st.sampled_from(["add", "delete"]), min_size=1, max_size=4))
def test_plans_after_changes_are_those_of_solving_everything(template, tmp_path, seed, steps):
    folder = tmp_path / "changed.mv"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder)
    rng = np.random.default_rng(seed)
    with memvec.open(folder) as collection:
        for step in steps:
            changed(collection, step, rng)
            collection.range_search(ROWS[:3], 0.7)
            state, live = collection._store.state, collection._searches.live.promises
            sample, alive = live.sample(state), [part.alive for part in state.parts]
            for least in (least_near(state.segments[0].rows), -np.inf):
                whole = live._whole(state, sample, least)
                assert columns(whole.table) == columns(naive_rows(state, sample, least))
            anew = JointPromises(collection.settings)
            for similarity in (0.7, 0.8, 0.95):
                request = live.request(None, None, None, "test")
                plans = [
                    one.for_ranges(state, alive).for_range(similarity, request, "test")
                    for one in (live, anew)
                ]
                assert plans[0].certificate == plans[1].certificate
                for name in ("at", "slack"):
                    kept, full = (getattr(plan.thresholds, name) for plan in plans)
                    assert kept.tolist() == full.tolist()


@given(seed=seeds, least=st.sampled_from([-1.0, -0.5, 0.3, 0.9, 1.0]))
def test_packed_rows_come_back(seed, least):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 200))
    queries = np.sort(rng.integers(n // 4 + 1, size=n))
    cosines = rng.uniform(-1, 1, n).astype(np.float32).astype(np.float64)
    order = np.lexsort((-cosines, queries))
    slopes = rng.random((n, 5)).astype(np.float32)
    table = CalibrationTable(
        *(queries, cosines[order], np.zeros(n, dtype=int), rng.permutation(n)),
        *(np.ones(n, dtype=np.float32), slopes * 2, slopes),
    ).ranked()

    def see(asked, keys, cosines):
        rows = np.argsort(table.keys)[keys]
        assert table.queries[rows].tolist() == asked.tolist()
        assert table.cosines[rows].tolist() == cosines.tolist()
        return table.scores[rows], table.slopes[rows]

    packed = PackedTable.read(PackedTable.of(table, least).blob)
    assert columns(packed.whole(see)) == columns(table)
    assert columns(packed.near()) == columns(table.rows(table.cosines >= least))
    assert (packed.n_known, packed.n_stages, packed.most_copies) == (table.queries.max() + 1, 5, 1)
    assert packed.broken is None
