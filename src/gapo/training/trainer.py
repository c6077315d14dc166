"""PreferenceTrainer: `transformers.Trainer` for preference pairs, whatever the objective."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback
from transformers.trainer_utils import EvalLoopOutput, TrainOutput

from gapo.anchor.gap import parameters_in_scope
from gapo.errors import InputError
from gapo.model.generate import padding_id, replies
from gapo.model.logps import PairLogps
from gapo.model.memory import keep_freed_memory
from gapo.model.perturb import displaced, global_norm, without_gradients
from gapo.model.policy import check_logps
from gapo.model.ranks import Ranks
from gapo.model.reference import logps_of
from gapo.model.sharding import is_shard, is_sharded
from gapo.objectives import Objective, Slopes
from gapo.pairs.collate import PairBatch
from gapo.pairs.encode import Encoder
from gapo.training.admission import longest, policy_of, refuse_foreign_ids, refuse_what_would_go_wrong
from gapo.training.bookkeeping import Bookkeeping
from gapo.training.choices import engine_choice_for, engine_for, layout_for
from gapo.training.config import PreferenceConfig
from gapo.training.dataset import EncodedPairs, PairCollator, encoded_pairs, encoded_sets
from gapo.training.doubts import judgement_for, watch_for
from gapo.training.finite import check_weights
from gapo.training.metrics import preference_metrics
from gapo.training.other_replies import OtherReplies
from gapo.training.references import References
from gapo.training.resumable import ResumableTrainer
from gapo.training.shares import shared_out
from gapo.training.step import MicroBatch, StepPlan, micro_batch_backward


class PreferenceTrainer(ResumableTrainer):
    """Train a causal language model on preference pairs.

    model: a model, a folder or a Hub id. train_dataset and eval_dataset: anything `gapo.load_pairs` reads (a
    `datasets.Dataset` in TRL's formats, a file, a PairSet), for evaluation also a dict of them. ref_model: the
    reference for objectives that need one; the start model (adapters off) if not given. The run's record is written
    to `args.output_dir` as it goes.
    """

    model: Any
    args: PreferenceConfig  # type: ignore[assignment]
    train_dataset: EncodedPairs  # type: ignore[assignment]
    eval_dataset: Any
    data_collator: PairCollator
    objective: Objective
    plan: StepPlan
    books: Bookkeeping
    references: References
    ranks: Ranks

    def __init__(
        self,
        model: PreTrainedModel | nn.Module | str,
        args: PreferenceConfig | None = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        peft_config: Any = None,
        ref_model: nn.Module | None = None,
        callbacks: list[TrainerCallback] | None = None,
        **trainer_options: Any,
    ) -> None:
        args = args if args is not None else PreferenceConfig(output_dir="gapo-run")
        policy = policy_of(model, processing_class, peft_config, args)
        model, tokenizer = policy.model, policy.tokenizer
        refuse_what_would_go_wrong(model, args)
        keep_freed_memory()
        self.ranks = args.ranks()
        self.ranks.first_decides(lambda: check_logps(model))  # others may not have read the weights yet
        self.objective = args.chosen_objective()
        if self.objective.anchored:
            parameters_in_scope(model, args.anchor_scope)  # a wrong scope is wrong before anything is read
        self.encoder = Encoder(tokenizer, longest(model, args), args.max_prompt_length, args.template)
        with self.ranks.first_first():  # others open what the first has put into the cache
            train = encoded_sets(train_dataset, self.encoder, **args.reading())
            evaluation = encoded_sets(eval_dataset, self.encoder, **args.reading())
        for pairs in (train, *(evaluation.values() if isinstance(evaluation, dict) else [evaluation])):
            refuse_foreign_ids(model, pairs)
        pad_id = padding_id(tokenizer, model)
        wish = args.shared_prefix
        self.layout = self.ranks.first_decides(lambda: layout_for(model, pad_id, wish, train, evaluation))
        super().__init__(
            model=model,
            args=args,
            data_collator=PairCollator(pad_id, self.layout.shared),
            train_dataset=train,
            eval_dataset=evaluation,
            processing_class=tokenizer,
            callbacks=callbacks,
            **trainer_options,
        )
        self.loss_is_scaled_for_ga = True  # every micro-batch divides by the pairs of the whole step
        self.engine_choice = engine_choice_for(self)
        self.shard()
        self.references = References(self, ref_model)
        self.books = Bookkeeping.of(self)
        self._other_replies: OtherReplies | None = None  # KTO's
        self._away = ExitStack()  # SAM: open while the parameters are not at home
        self._loss = 0.0  # of the step, as far as this rank has it
        self._weights = model.num_parameters(exclude_embeddings=True)

    @property
    def pad_id(self) -> int:
        return padding_id(self.encoder.tokenizer, self.model)

    # ---- training ----

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Train. `resume_from_checkpoint=True` goes on from the run's newest whole checkpoint."""
        if self.train_dataset is None:
            raise InputError("PreferenceTrainer.train needs a train_dataset")
        checkpoint = self.begin_or_resume(resume_from_checkpoint)
        needs = set(self.objective.needs)
        self.plan = StepPlan(
            self.objective,
            engine_for(self),
            self.references.of(self.train_dataset) if "reference" in needs else None,
            precision=self.accelerator.autocast,
            ranks=self.ranks,
            judgement=judgement_for(self),
            watch=watch_for(self),
        )
        if self.objective.reward.relative:
            self.references.of_sets(self.eval_dataset)
        if "kl" in needs and self._other_replies is None:
            self._other_replies = OtherReplies(self)
        self.books.begin(checkpoint)
        if checkpoint and (finished := self.already_finished(checkpoint)) is not None:
            return finished
        try:
            output = super().train(checkpoint, trial, ignore_keys_for_eval)
            check_weights(self.model, self.state.global_step, self.ranks)
            return output
        finally:
            self._away.close()
            if self.plan.engine is not None:
                self.plan.engine.release()
            self.books.finish()

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """All micro-batches of one optimiser step, with everything their losses need."""
        samples, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        if not samples:
            return samples, None
        self.restore_random_state()
        self.books.start_clock()
        self.model.train()
        batches = [PairBatch.of(self._prepare_inputs(sample)) for sample in samples]
        rows = [sample["index"] for sample in samples]
        step = self.state.global_step + 1
        kl = self._other_replies.drift(rows) if self._other_replies is not None else None
        prompts = self.train_dataset.prompts(rows) if self.plan.watch else None
        prepared = self.plan.prepare(self.model, batches, rows, step, kl, prompts)
        parts, pairs = prepared.parts, self.ranks.count(sum(len(batch) for batch in batches))
        self.books.new_step(rows, prepared.report, sum(batch.tokens for batch in batches))
        if self.args.sam_radius > 0:
            parts = self._move_uphill(parts, rows, pairs)
        known = prepared.give_gradient(self.model)
        micro: list[dict[str, Any]] = [
            {"index": row, "input_ids": part.batch.input_ids, "micro_batch": part, "gradient_known": known}
            for row, part in zip(rows, parts, strict=True)
        ]
        micro[-1]["last"], self._loss = True, 0.0
        return micro, pairs

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """Gradient of the micro-batch's share of the step's mean loss, a chunk of pairs at a time."""
        part: MicroBatch = inputs["micro_batch"]
        pairs = int(num_items_in_batch) if num_items_in_batch is not None else len(part.batch)
        if inputs["gradient_known"]:  # the engine has taken it with the anchor
            assert part.known is not None
            assert part.policy is not None
            self._write_down(part, inputs["index"], part.known, part.policy)
            return self._closed(inputs, part.known.loss.sum() / pairs)
        model.train()
        if callable(switch := getattr(self.optimizer, "train", None)):
            switch()  # schedule-free optimisers have two modes
        found, policy = self._backward(part, pairs, self.accelerator.backward)
        if self.args.sam_radius:  # SAM has written the step down at home
            self.books.look(inputs["index"], [policy.chosen, policy.rejected], found.loss)
        else:
            self._write_down(part, inputs["index"], found, policy)
        return self._closed(inputs, found.loss.sum() / pairs)

    def _closed(self, inputs: dict[str, Any], loss: Tensor) -> Tensor:
        """At the end of a step all ranks have its whole gradient, and its loss."""
        self._loss += float(loss)
        if "last" not in inputs:
            return loss if self.ranks.alone else torch.zeros_like(loss)
        self.books.check_pairs()
        if not (inputs["gradient_known"] or is_sharded(self.model)):  # shards are summed by every backward
            self.ranks.sum_gradients(self._trained())
        return loss if self.ranks.alone else torch.full_like(loss, self.ranks.sum_of(self._loss))

    def _trained(self) -> list[nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]

    def _backward(self, part: MicroBatch, pairs: int, run: Any = Tensor.backward) -> tuple[Slopes, PairLogps]:
        return micro_batch_backward(self.model, self.objective, part, pairs, self.accelerator.autocast, run)

    def _write_down(self, part: MicroBatch, rows: Tensor, found: Slopes, policy: PairLogps) -> None:
        self.books.add(rows, part.policy if part.policy is not None else policy, found, part)

    def _move_uphill(self, prepared: list[MicroBatch], rows: list[Tensor], pairs: int) -> list[MicroBatch]:
        """SAM: the step's gradient will be taken at theta + rho * g/||g|| of the step's own loss."""
        trained = self._trained()
        with without_gradients(trained):
            for part, row in zip(prepared, rows, strict=True):
                self._write_down(part, row, *self._backward(part, pairs))
            if not is_sharded(self.model):
                self.ranks.sum_gradients(trained)
            uphill = [p.grad if p.grad is not None else torch.zeros_like(p) for p in trained]
        if not self._away.enter_context(displaced(trained, uphill, self.args.sam_radius)):  # stayed at home: why?
            self.books.check_pairs()
            self.books.check_norm(global_norm(uphill), "the gradient SAM follows")
        return self.plan.again(self.model, prepared)

    def come_home(self) -> None:
        """End SAM's displacement: the gradient is known, the optimiser moves theta itself."""
        self._away.close()

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        if norm is None:
            norm = global_norm(p.grad for p in self.model.parameters() if p.grad is not None)
        norm = norm.full_tensor() if is_shard(norm) else norm
        self.books.check_norm(float(norm), "the gradient")
        self.books.grad_norm = float(norm)
        return norm

    # ---- evaluation ----

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Reward accuracy, margin and loss on every pair of the data set."""
        pairs: EncodedPairs = dataloader.dataset
        bar = self.books.progress(description)
        precision = self.accelerator.autocast
        policy = logps_of(self.model, pairs.encoded, self.pad_id, bar, precision, self.layout.shared, self.ranks)
        reference = self.references.of(pairs) if self.objective.reward.relative else None
        metrics = preference_metrics(self.objective, policy, reference)
        predictions = torch.stack([policy.chosen, policy.rejected], dim=1).numpy()
        if self.compute_metrics is not None:
            metrics |= self.compute_metrics(EvalPrediction(predictions=predictions, label_ids=np.array([])))
        named = {f"{metric_key_prefix}_{key}": value for key, value in metrics.items()}
        self.books.sample_replies(pairs)
        return EvalLoopOutput(predictions=predictions, label_ids=None, metrics=named, num_samples=len(pairs))

    def replies(self, prompts: list[Any], max_new_tokens: int = 64) -> list[str]:
        """The policy's greedy replies."""
        return replies(self.model, self.encoder, prompts, max_new_tokens=max_new_tokens)

    # ---- Trainer's doors ----

    def get_train_dataloader(self) -> Any:
        loader = super().get_train_dataloader()
        return loader if self.ranks.alone else shared_out(loader, self._train_batch_size, self.ranks)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        if eval_dataset is not None and not isinstance(eval_dataset, str):
            eval_dataset = encoded_pairs(eval_dataset, self.encoder, **self.args.reading())
        return super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        return super().get_test_dataloader(encoded_pairs(test_dataset, self.encoder, **self.args.reading()))

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        super().log({**logs, **self.books.means_since_last_log()} if "loss" in logs else logs, start_time)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        return int(6 * inputs["input_ids"].numel() * self._weights) if "input_ids" in inputs else 0

    def _maybe_log_save_evaluate(self, *args: Any, **options: Any) -> None:
        self.come_home()  # also where training stops in the middle of a step
        super()._maybe_log_save_evaluate(*args, **options)
