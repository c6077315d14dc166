"""Pages of studies as their runs come in: what is published counts as done, and what is new is added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gapo.report.study_files import CARD, ROWS, folder_of, write_group, write_index, write_study
from gapo.report.study_html import write_study_html
from gapo.storage import whole_file
from gapo.studies.about import about_study
from gapo.studies.catalogue import REAL_STUDIES, tuning_for
from gapo.studies.conduct import gathered
from gapo.studies.rows import Rows, first, read_rows
from gapo.studies.scale import Scale
from gapo.studies.store import Store
from gapo.studies.study import Study
from gapo.studies.tasks import Setting
from gapo.studies.tuned import read_tuned


@dataclass(frozen=True)
class Results:
    """A folder of pages, the runs they are made of, and how large these are."""

    folder: Path
    store: Store
    scale: Scale
    seeds: int | None = None

    def setting(self, studies: Sequence[Study]) -> Setting:
        """As things stand: learning rates as they were chosen, and runs that pages of long studies have rows of."""
        tuning = tuning_for(studies)
        tuned = {} if tuning is None else read_tuned(folder_of(tuning, self.folder, self.scale.name))
        shown = {study.name: frozenset(row["run"] for row in self._kept(study)) for study in studies if study.long}
        return Setting(self.scale, self.store, tuned, self.seeds, shown)

    def rows(self, study: Study, setting: Setting, *, kept: bool) -> Rows:
        """What was observed; `kept`: rows of the page stand in for runs that are gone."""
        return gathered(study, setting, self._kept(study) if kept or study.long else [])

    def write(self, study: Study, setting: Setting, *, kept: bool = False) -> Path | None:
        """The page of a study and the index; of a long study that has no run yet there is none."""
        rows = self.rows(study, setting, kept=kept)
        if study.long and not rows:
            return None
        page = write_study(study, rows, about_study(study, setting, rows), self._place(study))
        write_study_html(self._place(study))
        self._keep_card(study, rows)
        if study.long:
            write_group(self.folder)
        write_index(self.folder)
        return page

    def _keep_card(self, study: Study, rows: Rows) -> None:
        """The card of one trained model, where the run is at hand; its weights may be gone."""
        found = first(rows, method=study.card) if study.card is not None else None
        card = self.store.run(found["run"]).model / "README.md" if found is not None else None
        if card is not None and card.is_file():
            with whole_file(self._place(study) / CARD) as part:
                part.write_text(card.read_text(encoding="utf-8"), encoding="utf-8")

    def _place(self, study: Study) -> Path:
        return folder_of(study, self.folder, self.scale.name)

    def _kept(self, study: Study) -> Rows:
        """The rows of its page; of a long study also those of others that look at their runs in the same way."""
        rows = read_rows(self._place(study) / ROWS)
        alike = [
            other for other in REAL_STUDIES if study.long and other is not study and other.observe is study.observe
        ]
        own = {row["run"] for row in rows}
        return rows + [row for other in alike for row in read_rows(self._place(other) / ROWS) if row["run"] not in own]
