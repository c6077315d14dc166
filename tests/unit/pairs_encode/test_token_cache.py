"""Token ids on disk, and from several processes, are the token ids of one process in memory."""

import logging
import os
import random
import signal
import time

import numpy as np
import pytest

import tiny
from gapo.errors import InputError
from gapo.pairs import files, store, token_cache, tokenise
from gapo.pairs.collate import Mismatched, length_groups, mismatched, row_width, row_widths
from gapo.pairs.encode import Encoder, encode_pairs
from gapo.pairs.files import save_pairs
from gapo.pairs.formats import load_pairs
from gapo.pairs.noise import flip
from gapo.pairs.token_cache import StoredTokens, encode_set
from gapo.pairs.tokenise import process_count, token_blocks
from gapo.pairs.tokenizer_identity import tokenizer_identity


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GAPO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "SMALL_FILE", 0)
    return tmp_path / "cache"


def rows(n=40, seed=0):
    """Some prompts are too long, and some replies differ only in words the tokenizer does not know."""
    rng = random.Random(seed)

    def words(low, high):
        return " ".join(rng.choice(tiny.WORDS[1:]) for _ in range(rng.randint(low, high)))

    found = []
    for i in range(n):
        prompt = words(1, 8)
        if i % 3 == 0:
            prompt = [{"role": "user", "content": prompt}]
        row = {"prompt": prompt, "chosen": words(1, 9), "rejected": words(1, 9) + " no"}
        found.append(row if i % 7 else row | {"chosen": "what12", "rejected": "what13"})
    return found


@pytest.fixture(params=[None, tiny.CHAT], ids=["plain", "chat"])
def encoder(request):
    return Encoder(tiny.tiny_tokenizer(request.param), max_length=14, max_prompt_length=10)


@pytest.fixture
def path(tmp_path):
    save_pairs(load_pairs(rows()), tmp_path / "t.jsonl")
    return tmp_path / "t.jsonl"


def same(memory, disk):
    assert list(disk.encoded) == list(memory.encoded)
    assert disk.encoded[3:9] == memory.encoded[3:9]
    assert disk.pairs == memory.pairs
    assert [pair.source for pair in disk.pairs] == [pair.source for pair in memory.pairs]
    assert list(disk.bad) == list(memory.bad)


def test_ids_on_disk_are_ids_in_memory(path, encoder):
    pairs = load_pairs(path, cache=False)
    memory, disk = (
        encode_set(pairs, encoder, cache=False),
        encode_set(load_pairs(path, cache=True), encoder, cache=True),
    )
    expected = encode_pairs(pairs, encoder)
    assert (memory.encoded, memory.bad) == expected
    assert len({bad.reason for bad in memory.bad}) == 2
    assert isinstance(disk.encoded, StoredTokens)
    same(memory, disk)
    assert disk.encoded.largest == max(max(*p.prompt, *p.chosen, *p.rejected) for p in memory.encoded)


def test_noise_and_selections_are_an_index_on_the_same_ids(path, encoder, cache, monkeypatch):
    changes = (lambda p: flip(p, 0.5)[0], lambda p: flip(p, 0.5)[0].split(0.5)[1], lambda p: p[30:3:-2])
    memory, disk = load_pairs(path, cache=False), load_pairs(path, cache=True)
    expected = [encode_set(change(memory), encoder, cache=False) for change in changes]
    encode_set(disk, encoder, cache=True)
    monkeypatch.setattr(Encoder, "encode_all", None)  # nothing is tokenised again
    for change, wanted in zip(changes, expected, strict=True):
        same(wanted, encode_set(change(disk), encoder))
    assert len(list((cache / "tokens").iterdir())) == 1


def test_a_few_pairs_of_a_large_set_do_not_tokenise_all_of_it(path, encoder, cache, monkeypatch):
    disk = load_pairs(path, cache=True)
    monkeypatch.setattr(store, "STORED_FROM", 10)
    same(encode_set(load_pairs(path, cache=False)[:10], encoder, cache=False), encode_set(disk[:10], encoder))
    assert not (cache / "tokens").exists()


def test_a_large_set_in_memory_keeps_its_ids_on_disk(path, encoder, cache):
    pairs = flip(load_pairs(rows()), 0.5)[0]
    found = encode_set(pairs, encoder, cache=True)
    assert isinstance(found.encoded, StoredTokens)
    same(encode_set(pairs, encoder, cache=False), found)
    same(found, encode_set(pairs, encoder, cache=True))
    from_file = encode_set(load_pairs(path, cache=True), encoder, cache=True)  # same text without noise: other ids
    assert from_file.encoded.store.path != found.encoded.store.path
    unflipped = encode_set(load_pairs(rows()), encoder, cache=True)  # same text, same ids, wherever it was read
    assert from_file.encoded.store.path == unflipped.encoded.store.path


@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes_give_the_same_bits(path, encoder, processes, monkeypatch):
    monkeypatch.setattr(tokenise, "BLOCK", 4)
    for pairs in (load_pairs(path, cache=False), load_pairs(path, cache=True)):
        one, many = (list(token_blocks(pairs.pairs, encoder, count)) for count in (1, processes))
        assert len(one) == 10
        for block, other in zip(one, many, strict=True):
            assert block.ids.tobytes() == other.ids.tobytes()
            assert block.lengths.tobytes() == other.lengths.tobytes()
            assert block.bad == other.bad
            assert block.ids.dtype == np.int32
    same(encode_set(pairs, encoder, False, 1), encode_set(pairs, encoder, True, processes))


def test_an_error_in_a_process_is_the_error_of_one(encoder, monkeypatch):
    monkeypatch.setattr(tokenise, "BLOCK", 4)
    refusing = Encoder(tiny.tiny_tokenizer("{{ raise_exception('no such turn') }}"))
    pairs = load_pairs(rows())
    for count in (1, 2):
        with pytest.raises(InputError, match="refuses a conversation"):
            list(token_blocks(pairs.pairs, refusing, count))


def test_a_killed_process_costs_time_only(encoder, monkeypatch, caplog):
    monkeypatch.setattr(tokenise, "BLOCK", 4)
    pairs, here, real = load_pairs(rows()), os.getpid(), tokenise.encode_block
    expected = list(token_blocks(pairs.pairs, encoder, 1))

    def killed(encoder, some):
        if os.getpid() != here and some[0].id == pairs[12].id:
            os._exit(9)
        return real(encoder, some)

    monkeypatch.setattr(tokenise, "encode_block", killed)
    with caplog.at_level(logging.WARNING, "gapo"):
        found = list(token_blocks(pairs.pairs, encoder, 2))
    assert "ended from outside" in caplog.text
    assert [block.ids.tolist() for block in found] == [block.ids.tolist() for block in expected]


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes through /proc")
def test_the_processes_of_a_killed_run_end(monkeypatch):
    monkeypatch.setattr(tokenise, "LOOKS_EVERY", 0.05)
    reading, writing = os.pipe()
    run = os.fork()
    if not run:
        worker = os.fork()
        if not worker:
            tokenise._begin(None)
            os.write(writing, str(os.getpid()).encode())
        time.sleep(60)
        os._exit(0)
    worker = int(os.read(reading, 20))
    assert not gone(worker)
    os.kill(run, signal.SIGKILL)
    os.waitpid(run, 0)
    deadline = time.monotonic() + 20
    while not gone(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert gone(worker)


@pytest.mark.parametrize("wrong", [0, -1, True, "many", 1.5, None])
def test_a_wrong_number_of_processes_is_refused(wrong):
    with pytest.raises(InputError, match="tokenizer_processes must be auto or a whole number"):
        process_count(wrong, 10)


def test_processes_are_as_many_as_asked_for_or_worth_it():
    assert process_count(3, 10_000) == process_count("3", 10_000) == 3
    assert process_count(3, 10) == 1
    assert process_count("auto", 100) == 1
    assert process_count("auto", 10**6) >= 1


def test_a_damaged_store_of_ids_is_made_again(path, encoder, cache, caplog):
    pairs = load_pairs(path, cache=True)
    before = list(encode_set(pairs, encoder, cache=True).encoded)
    (folder,) = (cache / "tokens").iterdir()
    content = bytearray((folder / "ids.bin").read_bytes())
    content[40] ^= 4
    (folder / "ids.bin").write_bytes(content)
    with caplog.at_level(logging.WARNING, "gapo"):
        assert list(encode_set(pairs, encoder, cache=True).encoded) == before
    assert "ids.bin has other bytes" in caplog.text


def test_a_cache_that_cannot_be_written_is_told_and_done_without(encoder, cache, caplog):
    cache.write_text("a file where the folder should be")
    pairs = load_pairs(rows())
    with caplog.at_level(logging.WARNING, "gapo"):
        same(encode_set(pairs, encoder, cache=False), encode_set(pairs, encoder, cache=True))
    assert "the cache cannot be written" in caplog.text


def test_what_changes_the_ids_changes_their_place(monkeypatch):
    pairs = load_pairs(rows(5))

    def place(tokenizer=None, **settings):
        return token_cache.token_path(pairs, Encoder(tokenizer or tiny.tiny_tokenizer(tiny.CHAT), **settings))

    more = tiny.tiny_tokenizer(tiny.CHAT)
    more.add_tokens(["more"])
    other_end = tiny.tiny_tokenizer(tiny.CHAT)
    other_end.eos_token = "<|end|>"
    places = [place(), place(tiny.tiny_tokenizer()), place(tiny.tiny_tokenizer(tiny.CHAT + " ")), place(more)]
    places += [place(other_end), place(tiny.tiny_tokenizer(tiny.CHAT, adds_bos=False)), place(max_length=100)]
    places += [place(max_prompt_length=5), place(template="none")]
    assert len(set(places)) == len(places)
    assert place() == places[0]
    monkeypatch.setattr(token_cache, "ENCODING", 2)
    assert place() != places[0]


def test_calling_a_tokenizer_does_not_change_what_it_is():
    tokenizer = tiny.tiny_tokenizer()
    before = tokenizer_identity(tokenizer)
    tokenizer(["hello there", "hello"], padding=True, truncation=True, max_length=2)
    assert tokenizer.backend_tokenizer.truncation is not None
    assert tokenizer_identity(tokenizer) == before


def test_a_template_that_writes_the_date_is_of_its_day(monkeypatch):
    from gapo.pairs import tokenizer_identity as module

    dated = tiny.tiny_tokenizer(tiny.CHAT + "{{ strftime_now('%d') }}")
    plain = tiny.tiny_tokenizer(tiny.CHAT)
    before = tokenizer_identity(dated), tokenizer_identity(plain)

    class Tomorrow:
        today = staticmethod(lambda: "tomorrow")

    monkeypatch.setattr(module, "date", Tomorrow)
    assert tokenizer_identity(dated) != before[0]
    assert tokenizer_identity(plain) == before[1]


def test_lengths_are_known_without_reading_ids(path, encoder):
    pairs = flip(load_pairs(path, cache=True), 0.5)[0]
    found = encode_set(pairs, encoder, cache=True).encoded
    assert found.lengths().tolist() == [[len(p.prompt), len(p.chosen), len(p.rejected)] for p in found]
    for shared in (False, True):
        assert row_widths(found, shared).tolist() == [row_width(pair, shared) for pair in found]
        assert row_widths(list(found), shared).tolist() == row_widths(found, shared).tolist()


def test_groups_of_like_length_are_those_of_a_sorted_list():
    rng = random.Random(0)
    widths = [rng.randint(1, 9) for _ in range(50)]
    expected, group = [], []
    for i in sorted(range(50), key=lambda i: widths[i]):
        if group and 2 * (len(group) + 1) * widths[i] > 40:
            expected.append(group)
            group = []
        group.append(i)
    assert [g.tolist() for g in length_groups(widths, 2, 40)] == [*expected, group]
    assert not list(length_groups([], 2, 40))


def test_other_replies_of_pairs_on_disk_are_those_of_a_list(path, encoder):
    found = encode_set(load_pairs(path, cache=True), encoder, cache=True).encoded
    crossed = Mismatched(found, 14)
    assert list(crossed) == mismatched(list(found), 14)
    assert crossed[-1] == crossed[len(found) - 1]
    assert crossed[2:4] == list(crossed)[2:4]


def test_the_address_tells_pairs_order_and_labels_apart(path, encoder):
    pairs = load_pairs(path, cache=True)
    sets = [pairs, pairs[::-1], pairs[:20], flip(pairs, 0.5)[0]]
    addresses = [encode_set(one, encoder, cache=True).encoded.address for one in sets]
    assert len(set(addresses)) == 4
    assert encode_set(pairs, encoder, cache=True).encoded.address == addresses[0]
