"""The laws of a store: acknowledged entries stay, deleted ones are gone, and keys of two encoders never mix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from devmind.errors import StoreError
from devmind.memory import Entry, Filters, Key, Pointer, Sizes, Store
from devmind.moment import Sense
from devmind.testing.laws import difference, require
from devmind.testing.store_copies import check_changes


def check_store(make: Callable[[], Store], *, persistent: bool = True) -> None:
    """Check the laws of a memory store (`devmind.memory.Store`) that begins empty.

    Args:
        make: opens the store; every call opens the same one (the same folder, the same database).
        persistent: whether the store keeps its content when it is closed and opened again; False for stores in RAM.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    with make() as store:
        require(store.find() == [], "check_store begins with an empty store", f"{len(store.find())} entries")
        entries = [example(number) for number in range(5)]
        ids = store.add(entries)
        require(len(set(ids)) == 5 and min(ids) > 0, "add gives every entry a number of its own, from 1 on", f"{ids}")
        _check_found(store, entries, ids)
        _check_filters(store, entries, ids)
        _check_counts(store, entries, ids)
        _check_whole_steps(store, ids)
        _check_revision(store)
        if persistent:
            with make() as second:
                _check_second(store, second)
        kept = store.find()
    store.close()  # closing twice must do no harm
    _refused(store.find, "a closed store raises StoreError")
    if persistent:
        with make() as again:
            _same(again.find(), kept, "what was closed and opened again holds the same entries")
            last = max(entry.id for entry in kept)
            again.delete([last])
            (following,) = again.add([example(9, "encoder-b")])
            require(following > last, "a number is never used again", f"{following} after {last} was deleted")
    check_changes(make, _add_one, persistent)


def example(number: int, encoder: str = "encoder-a") -> Entry:
    """An entry with a picture, a sound and words; every second one is an example of a name."""
    rng = np.random.default_rng(number)
    senses: dict[str, Sense] = {
        "sight": rng.integers(0, 256, (8, 8, 3), dtype=np.uint8),
        "sound": rng.normal(0, 0.1, (1, 1600)).astype(np.float32),
        "words": f"entry {number} \u00e9",
    }
    keys = {sense: _key(rng, encoder, number % 2 == 0) for sense in ("sight", "sound")}
    pointer = Pointer("a/session.mcap", number, f"recording {number % 3}", number % 2) if number % 3 else None
    name = f"name {number % 4}" if number % 2 == 0 else None
    return Entry(100.0 + number, float(number), name, keys, senses, pointer=pointer)


def _key(rng: np.random.Generator, encoder: str, featured: bool) -> Key:
    vector = rng.normal(size=64)
    features = rng.normal(size=7).astype(np.float32) if featured else None
    return Key((vector / np.linalg.norm(vector)).astype(np.float32), encoder, features)


def _check_found(store: Store, entries: list[Entry], ids: list[int]) -> None:
    wanted = [replace(entry, id=number) for entry, number in zip(entries, ids, strict=True)]
    _same(store.find(), wanted, "find gives every entry as it was added, the oldest first")
    _same(store.get([ids[3], 10**9, ids[0]]), [wanted[3], wanted[0]], "get keeps the asked order and leaves gaps out")
    bare = store.find(payloads=False)
    require(not any(entry.senses for entry in bare), "without payloads senses are left empty", "senses")
    _same(bare, [replace(entry, senses={}) for entry in wanted], "without payloads the rest is there")


def _check_filters(store: Store, entries: list[Entry], ids: list[int]) -> None:
    for filters, passes in (
        (Filters(name="name 0"), lambda entry: entry.name == "name 0"),
        (Filters(named=True), lambda entry: entry.name is not None),
        (Filters(named=False), lambda entry: entry.name is None),
        (Filters(since_s=101, until_s=103), lambda entry: 101 <= entry.time_s < 103),
        (Filters(name="name 0", since_s=101), lambda entry: entry.name == "name 0" and entry.time_s >= 101),
        (Filters(words="ENTRY 3 \u00c9"), lambda entry: entry.senses["words"] == "entry 3 \u00e9"),
        (Filters(words="Name 0"), lambda entry: entry.name == "name 0"),
        (Filters(words="%"), lambda entry: False),
        (Filters(session="recording 1"), lambda entry: entry.pointer and entry.pointer.identity == "recording 1"),
    ):
        wanted = [number for entry, number in zip(entries, ids, strict=True) if passes(entry)]
        found = [entry.id for entry in store.find(filters)]
        require(found == wanted, f"find keeps to {filters}", f"{found} instead of {wanted}")
        facts = store.facts(filters).ids.tolist()
        require(facts == wanted, f"facts keep to {filters}", f"{facts} instead of {wanted}")


def _check_counts(store: Store, entries: list[Entry], ids: list[int]) -> None:
    """Facts, sizes and counts of recalls."""
    facts = store.facts()
    facts_of_entries = list(
        zip(facts.ids.tolist(), facts.time_s, facts.importance, facts.names, facts.recalled, strict=True)
    )
    wanted = [(number, e.time_s, e.importance, e.name, 0) for number, e in zip(ids, entries, strict=True)]
    require(
        facts_of_entries == wanted,
        "facts are of every entry, the oldest number first",
        f"{facts_of_entries}, not {wanted}",
    )
    require(bool(np.isnan(facts.recalled_s).all()), "what was never recalled has no time of it", f"{facts.recalled_s}")
    store.mark_recalled({ids[1]: 2, 10**9: 1}, 50.0)
    store.mark_recalled({ids[1]: 1, ids[2]: 4}, 60.5)
    marked = [(e.recalled, e.recalled_s) for e in store.get(ids[:3])]
    law = "mark_recalled adds to the count and keeps the last time"
    require(marked == [(0, None), (3, 60.5), (4, 60.5)], law, f"{marked}")
    require(store.facts().recalled.tolist()[:3] == [0, 3, 4], f"{law}, in facts as well", f"{store.facts().recalled}")
    payloads, keys = int(facts.payload_bytes.sum()), sum(_key_bytes(entry) for entry in entries)
    sizes = store.sizes()
    right = Sizes(len(entries), payloads, keys)
    require(sizes == right and payloads > 0, "sizes are of all entries, payloads and keys", f"{sizes}, not {right}")
    require(store.check() == [], "a sound store has no faults", f"{store.check()}")
    require(store.check(mend=True) == [], "there is nothing to mend in a sound store", "faults")


def _key_bytes(entry: Entry) -> int:
    return sum(k.vector.nbytes + (0 if k.features is None else k.features.nbytes) for k in entry.keys.values())


def _add_one(store: Store) -> None:
    before = store.sizes().entries
    store.add([example(20 + before, "encoder-b")])
    require(store.sizes().entries == before + 1, "sizes count an added entry", f"{store.sizes()}")


def _check_whole_steps(store: Store, ids: list[int]) -> None:
    before = store.find()
    law = "keys of one sense are of one encoder"
    _refused(lambda: store.add([example(6), example(7, "encoder-b")]), f"{law}: add refuses another")
    _same(store.find(), before, "a refused add changes nothing")
    _refused(lambda: store.replace_keys({ids[0]: example(0, "encoder-b").keys}), f"{law}: replace_keys refuses a part")
    _same(store.find(), before, "a refused replace_keys changes nothing")
    new = {entry.id: {"sight": example(entry.id, "encoder-b").keys["sight"]} for entry in before}
    store.replace_keys({**new, 10**9: new[ids[0]]})
    wanted = [replace(entry, keys=new[entry.id]) for entry in before]
    _same(store.find(), wanted, "replace_keys puts the new keys in the place of all old ones")
    gone = store.delete([ids[1], 10**9])
    require(gone == 1, "delete gives how many entries there were", f"{gone} for one of two")
    left = [entry for entry in wanted if entry.id != ids[1]]
    _same(store.find(), left, "delete takes the entries that it was given, and no other")
    total = sum(_key_bytes(entry) for entry in left)
    sizes = store.sizes()
    right = Sizes(len(left), int(store.facts().payload_bytes.sum()), total)
    require(sizes == right, "sizes follow deletes and new keys", f"{sizes}, not {right}")


def _check_revision(store: Store) -> None:
    first, again = store.revision(), store.revision()
    require(first == again, "revision stays while nothing changes", f"{first} and {again}")
    of_numpy = replace(example(8, "encoder-b"), time_s=np.float32(7), importance=np.float32(0.5))  # type: ignore[arg-type]
    (kept,) = store.get(store.add([of_numpy]))
    law = "numbers of numpy are kept as numbers"
    require((kept.time_s, kept.importance) == (7, 0.5), law, f"{kept.time_s!r}, {kept.importance!r}")
    after = store.revision()
    require(after != first, "revision changes with an add", f"{after}")
    store.delete([max(entry.id for entry in store.find(payloads=False))])
    require(store.revision() != after, "revision changes with a delete", f"{after}")


def _check_second(store: Store, second: Store) -> None:
    """Check two openings of one store, as in two processes."""
    before = store.revision()
    second.add([example(10, "encoder-b")])
    _same(store.find(), second.find(), "two openings of one store see the same entries")
    require(store.revision() != before, "revision changes with what another opening wrote", f"{before}")


def _refused(act: Callable[[], object], law: str) -> None:
    try:
        act()
    except StoreError:
        return
    require(False, law, "no StoreError")


def _same(found: list[Entry], wanted: list[Entry], law: str) -> None:
    numbers = [entry.id for entry in found], [entry.id for entry in wanted]
    require(numbers[0] == numbers[1], law, f"the entries {numbers[0]} instead of {numbers[1]}")
    for one, other in zip(found, wanted, strict=True):
        parts = [(_plain(one), _plain(other)), (one.senses, other.senses)]
        differs = "; ".join(text for a, b in parts if (text := difference(a, b)))
        require(not differs, law, f"entry {one.id}: {differs}")


def _plain(entry: Entry) -> Mapping[str, object]:
    """Everything but the payload, as named values."""
    keys = {f"{sense} {part}": value for sense, key in entry.keys.items() for part, value in _parts(key).items()}
    plain = {"time_s": entry.time_s, "importance": entry.importance, "name": str(entry.name), **keys}
    return plain | {"pointer": str(entry.pointer), "recalled": f"{entry.recalled} {entry.recalled_s}"}


def _parts(key: Key) -> dict[str, object]:
    features = {} if key.features is None else {"features": key.features}
    return {"vector": key.vector, "encoder": key.encoder, **features}
