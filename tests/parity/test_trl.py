"""TRL 1.16 and we, on the same tokens: the same loss, and the same gradient for every parameter.

Each test builds TRL's real trainer on a tiny Llama, takes a batch from its own dataloader and its loss from its own
`compute_loss`. Ours is computed from the token ids of that very batch on a second copy of the model.
"""

import logging

import pytest
import torch

import tiny
from gapo.model.policy import pair_logps
from gapo.objectives import get_objective
from gapo.pairs.collate import collate
from gapo.pairs.encode import EncodedPair

pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

PROMPTS = ("hello", "what is the time", "tell me about a cat that sleeps today", "how are you")
CHOSEN = ("I am fine thanks", "it is three", "a cat eats fish", "good")
REJECTED = ("bad", "it is not four it is red", "no", "very very well yes thanks")
CHOSEN_OF_EQUAL_LENGTH = ("I am fine thanks", "it is three today", "a cat eats fish", "I am not well")
ONE_WORD = ("hello", "cat", "what", "time")
COMMON = {
    "per_device_train_batch_size": 4,
    "gradient_checkpointing": False,
    "bf16": False,
    "use_cpu": True,
    "report_to": "none",
    "disable_tqdm": True,
    "max_length": 64,
}


@pytest.fixture(autouse=True)
def quiet():
    previous = {name: logging.getLogger(name).level for name in ("trl", "transformers", "datasets")}
    for name in previous:
        logging.getLogger(name).setLevel(logging.ERROR)
    yield
    for name, level in previous.items():
        logging.getLogger(name).setLevel(level)


def model(seed):
    return tiny.llama(seed=seed, dtype=torch.float32)


def preferences(prompts=PROMPTS, chosen=CHOSEN, rejected=REJECTED):
    """The space keeps the tokens of prompt and response apart when TRL joins the texts."""
    rows = zip(prompts, chosen, rejected, strict=True)
    return datasets.Dataset.from_list([{"prompt": p, "chosen": f" {c}", "rejected": f" {r}"} for p, c, r in rows])


def theirs(trainer):
    """A batch of TRL's, its loss, and the gradient of every parameter by name."""
    batch = next(iter(trainer.get_train_dataloader()))
    trainer.model.train()
    trainer.model.zero_grad()
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    return batch, loss.detach(), {name: p.grad for name, p in trainer.model.named_parameters()}


def assert_agreement(policy, ours, loss, gradients):
    """Losses and gradients agree to 1e-5 of their scale."""
    torch.testing.assert_close(ours.detach(), loss, rtol=1e-5, atol=1e-5)
    ours.backward()
    assert set(gradients) == {name for name, _ in policy.named_parameters()}
    largest = max(gradient.abs().max().item() for gradient in gradients.values())
    assert largest > 1e-4, "a gradient of nothing agrees with anything"
    for name, parameter in policy.named_parameters():
        scale = gradients[name].abs().max().item()
        difference = (parameter.grad - gradients[name]).abs().max().item()
        assert difference <= 1e-5 * max(scale, 1e-2 * largest), name
        assert difference <= 1e-5 * max(1.0, scale), name


def pairs_of(prompts, chosen, rejected):
    rows = zip(prompts, chosen, rejected, strict=True)
    return [EncodedPair(f"pair-{i}", p, c, r) for i, (p, c, r) in enumerate(rows)]


def split(input_ids, attention_mask, completion_mask):
    """Ids of prompt and response of every row."""
    return [
        (ids[there.bool() & ~reply.bool()].tolist(), ids[reply.bool()].tolist())
        for ids, there, reply in zip(input_ids, attention_mask, completion_mask, strict=True)
    ]


def pairs_of_rows(chosen_rows, rejected_rows):
    prompts = [prompt for prompt, _ in chosen_rows]
    assert prompts == [prompt for prompt, _ in rejected_rows]
    return pairs_of(prompts, [reply for _, reply in chosen_rows], [reply for _, reply in rejected_rows])


def assert_tokens_differ_in_length(pairs):
    assert len({len(pair.prompt) for pair in pairs}) > 1
    assert len({len(pair.chosen) for pair in pairs}) > 1
    assert all(pair.chosen[-1] == pair.rejected[-1] == 2 for pair in pairs), "every response ends with <eos>"


# --- with a reference ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "knobs", "trl_settings"),
    [
        ("dpo", {"beta": 0.3}, {"loss_type": "sigmoid", "beta": 0.3}),
        ("dpo", {"beta": 0.01}, {"loss_type": "sigmoid", "beta": 0.01}),
        ("ipo", {"tau": 0.4}, {"loss_type": "ipo", "beta": 0.4}),
        ("robust_dpo", {"beta": 0.2, "e": 0.1}, {"loss_type": "robust", "beta": 0.2, "label_smoothing": 0.1}),
        ("robust_dpo", {"beta": 0.2, "e": 0.3}, {"loss_type": "robust", "beta": 0.2, "label_smoothing": 0.3}),
    ],
)
def test_the_dpo_family_agrees_with_trls_dpo_trainer(name, knobs, trl_settings, tmp_path):
    from trl import DPOConfig, DPOTrainer

    trainer = DPOTrainer(
        model=model(seed=0),
        ref_model=model(seed=1),
        args=DPOConfig(output_dir=str(tmp_path), **COMMON, **trl_settings),
        train_dataset=preferences(),
        processing_class=tiny.tiny_tokenizer(),
    )
    batch, loss, gradients = theirs(trainer)
    rows = split(batch["input_ids"], batch["attention_mask"], batch["completion_mask"])
    pairs = pairs_of_rows(rows[:4], rows[4:])
    assert_tokens_differ_in_length(pairs)

    policy, tokens = model(seed=0), collate(pairs, tiny.PAD)
    with torch.no_grad():
        reference = pair_logps(model(seed=1), tokens)
    ours = get_objective(name, **knobs)(pair_logps(policy, tokens), reference).mean()
    assert_agreement(policy, ours, loss, gradients)


@pytest.mark.parametrize(
    ("policy_seed", "reference_seed", "drifted"),
    [(0, 1, True), (1, 0, False)],
    ids=["a drift of the policy", "a drift clamped at zero"],
)
def test_kto_agrees_with_trls_kto_trainer(policy_seed, reference_seed, drifted, tmp_path):
    """Our KTO is the mean of a pair's two terms; TRL takes the mean over all rows, which is the same number.

    z is measured on TRL's own mismatched rows (the previous completion of the batch; ours takes the next pair's).
    """
    from trl import KTOConfig, KTOTrainer

    weights = {"desirable_weight": 1.3, "undesirable_weight": 0.8}
    trainer = KTOTrainer(
        model=model(policy_seed),
        ref_model=model(reference_seed),
        args=KTOConfig(output_dir=str(tmp_path), beta=0.2, **weights, **{**COMMON, "per_device_train_batch_size": 8}),
        train_dataset=preferences(),
        processing_class=tiny.tiny_tokenizer(),
    )
    batch, loss, gradients = theirs(trainer)
    label = batch["label"].tolist()
    assert label == [True] * 4 + [False] * 4
    rows = split(batch["input_ids"], batch["attention_mask"], batch["completion_mask"])
    wrong_rows = split(batch["KL_input_ids"], batch["KL_attention_mask"], batch["KL_completion_mask"])
    pairs, wrong = pairs_of_rows(rows[:4], rows[4:]), pairs_of_rows(wrong_rows[:4], wrong_rows[4:])
    assert_tokens_differ_in_length(pairs)

    policy, still = model(policy_seed), model(reference_seed)
    with torch.no_grad():
        reference = pair_logps(still, collate(pairs, tiny.PAD))
        here, there = (pair_logps(each, collate(wrong, tiny.PAD)) for each in (policy, still))
        drift = torch.cat([here.chosen - there.chosen, here.rejected - there.rejected]).mean()
    assert (drift > 0.1).item() == drifted
    assert trainer._metrics["train"]["kl"][-1] == pytest.approx(drift.clamp(min=0).item(), rel=1e-4, abs=1e-5)
    kto = get_objective("kto", beta=0.2, lam_d=1.3, lam_u=0.8)
    ours = kto(pair_logps(policy, collate(pairs, tiny.PAD)), reference, drift.clamp(min=0)).mean()
    assert_agreement(policy, ours, loss, gradients)


# --- the policy alone ---------------------------------------------------------------------------------------------


def pairs_of_experimental_batch(batch):
    """CPO's and ORPO's batches keep chosen and rejected apart and mark the prompt by its labels."""
    rows = [
        split(batch[f"{side}_input_ids"], batch[f"{side}_attention_mask"], batch[f"{side}_labels"] != -100)
        for side in ("chosen", "rejected")
    ]
    return pairs_of_rows(*rows)


def cpo_trainer(tmp_path, dataset, **trl_settings):
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    return CPOTrainer(
        model=model(seed=0),
        args=CPOConfig(output_dir=str(tmp_path), **COMMON, **trl_settings),
        train_dataset=dataset,
        processing_class=tiny.tiny_tokenizer(),
    )


@pytest.mark.parametrize(("beta", "gamma"), [(2.5, 0.25), (10.0, 5.0)])
def test_simpo_agrees_with_trls_cpo_trainer_without_its_nll(beta, gamma, tmp_path):
    settings = {"loss_type": "simpo", "beta": beta, "simpo_gamma": gamma, "cpo_alpha": 0.0}
    batch, loss, gradients = theirs(cpo_trainer(tmp_path, preferences(), **settings))
    pairs, policy = pairs_of_experimental_batch(batch), model(seed=0)
    assert_tokens_differ_in_length(pairs)
    ours = get_objective("simpo", beta=beta, gamma=gamma)(pair_logps(policy, collate(pairs, tiny.PAD))).mean()
    assert_agreement(policy, ours, loss, gradients)


@pytest.mark.parametrize("alpha", [1.0, 0.2])
def test_cpo_agrees_with_trls_cpo_trainer_on_chosen_responses_of_equal_length(alpha, tmp_path):
    """Our NLL is a mean over the tokens of each response, TRL's over all tokens of the batch.

    The two are the same where the chosen responses are equally long, so here they are; prompts and rejected responses
    are not.
    """
    dataset = preferences(chosen=CHOSEN_OF_EQUAL_LENGTH)
    trainer = cpo_trainer(tmp_path, dataset, loss_type="sigmoid", beta=0.2, cpo_alpha=alpha)
    batch, loss, gradients = theirs(trainer)
    pairs, policy = pairs_of_experimental_batch(batch), model(seed=0)
    assert {len(pair.chosen) for pair in pairs} == {5}
    assert len({len(pair.rejected) for pair in pairs}) > 1
    ours = get_objective("cpo", beta=0.2, alpha=alpha)(pair_logps(policy, collate(pairs, tiny.PAD))).mean()
    assert_agreement(policy, ours, loss, gradients)


@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_orpo_agrees_with_trls_orpo_trainer_on_prompts_of_one_token(lam, tmp_path):
    """TRL's NLL counts the prompt's tokens too and is a mean over the batch; ours is the mean over each response.

    The first token of a text is never predicted, so with a one-token prompt and equally long chosen responses the two
    are the same. The tokenizer has no start token here, or prompts would have two.
    """
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer

    tokenizer = tiny.tiny_tokenizer(adds_bos=False)
    tokenizer.bos_token = None
    trainer = ORPOTrainer(
        model=model(seed=0),
        args=ORPOConfig(output_dir=str(tmp_path), beta=lam, **COMMON),
        train_dataset=preferences(prompts=ONE_WORD, chosen=CHOSEN_OF_EQUAL_LENGTH),
        processing_class=tokenizer,
    )
    batch, loss, gradients = theirs(trainer)
    pairs, policy = pairs_of_experimental_batch(batch), model(seed=0)
    assert {len(pair.prompt) for pair in pairs} == {1}
    assert {len(pair.chosen) for pair in pairs} == {5}
    ours = get_objective("orpo", lam=lam)(pair_logps(policy, collate(pairs, tiny.PAD))).mean()
    assert_agreement(policy, ours, loss, gradients)
