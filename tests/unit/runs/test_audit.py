"""An audit's folder: killed and resumed, refused, finished, and read for what to keep."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import gapo
import tiny
from gapo.diagnostics.auditing import AuditSettings, BlockScorer
from gapo.diagnostics.tables import column
from gapo.errors import InputError
from gapo.runs.audit import Asked, audit_pairs, folder_of
from gapo.runs.audit_folder import AuditFolder, read_audit
from gapo.runs.audit_keep import KEEPS, SCORES, end_of, kept_pairs, refuse_keep
from gapo.runs.audit_model import load_audited, print_of_model
from gapo.runs.selection import scores_from
from runs_of_tests import text_rows

SMALL = AuditSettings(compositions=2, batch_pairs=4, block_pairs=8)
TOKENIZER = tiny.tiny_tokenizer()


@pytest.fixture(scope="module")
def model():
    return tiny.llama(dtype=torch.float32)


@pytest.fixture(scope="module")
def rows():
    extra = {0: {"flipped": True, "subset": "agree"}, 1: {"flipped": False, "subset": "disagree"}}
    return [{**row, **extra.get(i, {})} for i, row in enumerate(text_rows(21))]


def audit(rows, model, out=None, settings=SMALL, **how):
    return audit_pairs(rows, model, TOKENIZER, out=out, settings=settings, **how)


@pytest.fixture(scope="module")
def whole(rows, model, tmp_path_factory):
    return audit(rows, model, tmp_path_factory.mktemp("audit") / "whole")


def test_a_row_a_pair_as_they_stand(rows, whole):
    pairs = gapo.load_pairs(rows)
    assert whole.table["pair_id"].to_pylist() == list(pairs.ids)
    assert whole.table["flipped"].to_pylist()[:3] == [True, False, None]
    assert whole.table["agree"].to_pylist()[:3] == [True, False, None]
    assert whole.table["subset"].to_pylist()[:3] == ["agree", "disagree", None]
    assert whole.about["counts"] == {"rows": 21, "scored": 21, "flipped_known": 2, "agree_known": 2}
    assert json.loads((whole.folder / "audit.json").read_text()) == whole.about
    assert pq.read_table(whole.folder / "audit.parquet").equals(whole.table)
    assert not (whole.folder / "parts").exists()


def test_without_a_folder_the_numbers_are_the_same(rows, model, whole):
    found = audit(rows, model)
    assert found.folder is None
    assert found.table.equals(whole.table)


@pytest.mark.parametrize("killed_after", [0, 1, 2])
def test_a_killed_audit_goes_on_to_the_same_bytes(rows, model, whole, tmp_path, monkeypatch, killed_after):
    real, calls = BlockScorer.table, []

    def stops(self, number):
        if len(calls) == killed_after:
            raise KeyboardInterrupt
        calls.append(number)
        return real(self, number)

    monkeypatch.setattr(BlockScorer, "table", stops)
    with pytest.raises(KeyboardInterrupt):
        audit(rows, model, tmp_path / "out")
    assert not (tmp_path / "out" / "audit.json").exists()
    (tmp_path / "out" / "parts" / ".block-000009.parquet.x.part").write_text("half")  # what a kill leaves
    again = []
    monkeypatch.setattr(BlockScorer, "table", lambda self, number: again.append(number) or real(self, number))
    audit(rows, model, tmp_path / "out")
    assert sorted(calls + again) == [0, 1, 2]
    assert (tmp_path / "out" / "audit.parquet").read_bytes() == (whole.folder / "audit.parquet").read_bytes()


def test_a_finished_audit_is_told_and_not_scored(rows, model, whole, monkeypatch):
    monkeypatch.setattr(BlockScorer, "table", lambda *_: pytest.fail("scored again"))
    assert audit(rows, model, whole.folder).table.equals(whole.table)
    open_ones = replace(SMALL, block_pairs=None)  # as the plan has it, whatever memory there is today
    assert audit(rows, model, whole.folder, open_ones).table.equals(whole.table)


def test_another_audit_in_the_same_folder_is_refused(rows, model, whole, tmp_path):
    for settings, said in (
        (replace(SMALL, beta=3.0), r"beta 2\.5 \(now 3\.0\)"),
        (replace(SMALL, seed=1), r"seed 0 \(now 1\)"),
        (replace(SMALL, exact=True), r"exact False \(now True\)"),
    ):
        with pytest.raises(InputError, match=f"holds an audit with {said}; choose another --out"):
            audit(rows, model, whole.folder, settings)
    with pytest.raises(InputError, match="other pairs"):
        audit(rows[:-1], model, whole.folder)
    with pytest.raises(InputError, match="other model"):
        audit(rows, tiny.llama(dtype=torch.float32, seed=1), whole.folder)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no audit"):
        audit(rows, model, tmp_path)
    with pytest.raises(InputError, match="is a file"):
        audit(rows, model, tmp_path / "notes.txt")
    with pytest.raises(InputError, match="holds no audit"):
        read_audit(tmp_path)


def test_pairs_that_cannot_be_scored_are_named(rows, model):
    found = audit([*rows, {"prompt": "p", "chosen": "", "rejected": "b"}], model)
    assert found.about["counts"]["rows"] == 22
    assert found.about["left_out"] == ["1 row left out: empty response (first: rows:22, key 'chosen')"]
    with pytest.raises(InputError, match="no pair is left to score"):
        audit(rows[:2], model, max_length=3)


def test_few_pairs_share_one_batch(rows, model):
    found = audit(rows[:3], model, settings=AuditSettings(compositions=2))
    assert found.about["plan"]["settings"]["batch_pairs"] == 3
    assert column(found.table, "gap_spread") == pytest.approx(np.zeros(3), abs=1e-6)


def test_weights_are_told_apart(model):
    before = print_of_model(model)
    assert before == print_of_model(tiny.llama(dtype=torch.float32))
    assert before != print_of_model(tiny.llama(dtype=torch.float32, seed=1))


def test_adapters_alone_are_moved(model, rows, tmp_path):
    from peft import LoraConfig, get_peft_model

    tiny.llama(dtype=torch.float32).save_pretrained(tmp_path / "base")
    TOKENIZER.save_pretrained(tmp_path / "base")
    adapted = get_peft_model(tiny.llama(dtype=torch.float32), LoraConfig(r=2, init_lora_weights=False))
    adapted.base_model.model.config._name_or_path = str(tmp_path / "base")
    adapted.peft_config["default"].base_model_name_or_path = str(tmp_path / "base")
    adapted.save_pretrained(tmp_path / "adapter")
    alone = load_audited(str(tmp_path / "adapter"))
    on_base = load_audited(str(tmp_path / "base"), str(tmp_path / "adapter"))
    trained = {name for name, p in alone.model.named_parameters() if p.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    assert print_of_model(alone.model) == print_of_model(on_base.model)
    found = audit(rows, on_base.model)
    assert np.isfinite(column(found.table, "gap")).all()
    low = load_audited(str(tmp_path / "base"), str(tmp_path / "adapter"), "bfloat16")
    assert all(p.dtype == torch.float32 for p in low.model.parameters() if p.requires_grad)
    with pytest.raises(InputError, match="adapter_config"):
        load_audited(str(tmp_path / "base"), str(tmp_path / "base"))
    with pytest.raises(InputError, match="leave it at float32"):
        load_audited(str(tmp_path / "base"), None, "bfloat16")
    with pytest.raises(InputError, match="unknown --dtype 'float8'"):
        load_audited("lab", None, "float8")


# ---- keeping ----


def test_stable_is_the_end_nobody_suspects():
    ends = {by: end_of("stable", by) for by in SCORES}
    assert {by for by, end in ends.items() if end == "lowest"} == {"gap", "grad_norm"}
    assert {by for by, end in ends.items() if end == "highest"} == {"weight", "gap_others", "margin"}
    assert all(end_of("unstable", by) != end_of("stable", by) for by in SCORES)
    assert end_of("random", "gap") == "random"


def test_kept_pairs_are_those_with_the_lowest_gaps(rows, whole):
    pairs = gapo.load_pairs(rows)
    gap = column(whole.table, "gap")
    for keep, order in (("stable", np.argsort(gap)), ("unstable", np.argsort(-gap))):
        kept = kept_pairs(pairs, whole.table, keep, 0.3)
        assert kept.ids == tuple(pairs.ids[i] for i in sorted(order[: round(0.3 * 21)]))
    random = kept_pairs(pairs, whole.table, "random", 0.3, seed=4)
    assert len(random) == 6
    assert random.ids == kept_pairs(pairs, whole.table, "random", 0.3, by="margin", seed=4).ids
    with pytest.raises(InputError, match="give the data that were audited"):
        kept_pairs(pairs[:5], whole.table)


def test_training_can_select_from_an_audit(rows, whole):
    scores = scores_from(str(whole.folder), "gap", None)
    assert list(scores) == list(gapo.load_pairs(rows).ids)


def test_wishes_to_keep_are_checked_before_any_work(tmp_path):
    (tmp_path / "there.jsonl").write_text("")
    out = tmp_path / "out.jsonl"
    assert refuse_keep("stable", "gap", 0.7, out, False) == out
    for wrong, said in (
        (("stabel", "gap", 0.7, out, False), "unknown --keep 'stabel'; did you mean 'stable'"),
        (("stable", "gaps", 0.7, out, False), "unknown --by 'gaps'; did you mean 'gap'"),
        (("stable", "gap", 1.7, out, False), "--fraction must lie above 0"),
        (("stable", "gap", 0.7, None, False), "--keep needs a file"),
        (("stable", "gap", 0.7, tmp_path / "out.doc", False), "unknown kind"),
        (("stable", "gap", 0.7, tmp_path / "there.jsonl", False), "--force"),
    ):
        with pytest.raises(InputError, match=said):
            refuse_keep(*wrong)
    assert set(KEEPS) == {"stable", "unstable", "random"}


def test_a_folder_for_every_question():
    asked = Asked("data/pairs.jsonl.gz", "runs/mini/gapo")
    assert folder_of(asked).as_posix() == "runs/audits/data-pairs-mini-gapo"
    assert folder_of(replace(asked, limit=64)).name == "data-pairs-mini-gapo-first-64"
    assert AuditFolder(folder_of(asked)).result is None
