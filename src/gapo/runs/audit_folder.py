"""The folder of an audit: a plan that says what is scored and how, a part for every finished block, then the result.

Parts belong to the plan's key, a hash of pairs, model and settings: a killed audit goes on with the same key, and
another one is refused.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gapo.diagnostics.auditing import AuditSettings
from gapo.diagnostics.tables import AUDIT
from gapo.errors import InputError
from gapo.runs.resume import is_free
from gapo.storage import clear_parts, whole_file

RESULT, PLAN, PARTS = "audit.json", "plan.json", "parts"
WORDS = {"data": "pairs", "model": "model"}  # what differs in words; a setting is named as it is


@dataclass(frozen=True)
class Plan:
    """What an audit scores, and how: prints of the pairs and of the model, and the settings, all settled."""

    data: str
    model: str
    settings: AuditSettings

    @property
    def key(self) -> str:
        content = json.dumps([self.data, self.model, asdict(self.settings)], sort_keys=True)
        return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()

    def written(self) -> dict[str, Any]:
        """As it stands in plan.json and audit.json."""
        return {"key": self.key, "data": self.data, "model": self.model, "settings": asdict(self.settings)}


@dataclass(frozen=True)
class AuditFolder:
    """Where an audit stands."""

    path: Path

    @property
    def result(self) -> dict[str, Any] | None:
        """audit.json, if the audit is finished."""
        found = _read(self.path / RESULT)
        return found if found is not None and (self.path / AUDIT).is_file() else None

    @property
    def plan(self) -> dict[str, Any] | None:
        """The plan of the audit that is finished or under way here."""
        return (self.result or {}).get("plan") or _read(self.path / PARTS / PLAN)

    def chosen_before(self, settings: AuditSettings) -> AuditSettings:
        """What was left to the machine is as the plan has it: memory may be another today."""
        before = (self.plan or {}).get("settings", {})
        open_ones = {name: before.get(name) for name in ("block_pairs", "bank") if before}
        return replace(settings, **{k: v for k, v in open_ones.items() if getattr(settings, k) is None})

    def refuse(self, plan: Plan) -> None:
        """What stands here and is not this plan's."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; choose another --out")
        before = self.plan
        if before is None and not is_free(self.path):
            raise InputError(f"{self.path} is not empty and holds no audit; choose another --out")
        if before is not None and before.get("key") != plan.key:
            raise InputError(
                f"{self.path} holds an audit with {different(before, plan.written())}; choose another --out, or "
                "remove that folder"
            )

    def open(self, plan: Plan) -> bool:
        """Begin, or go on with the same plan; another one is refused. True where it is finished."""
        self.refuse(plan)
        if self.result is not None:
            return True
        clear_parts(self.path)
        clear_parts(self.path / PARTS)
        write_json(self.path / PARTS / PLAN, plan.written())
        return False

    def part(self, number: int) -> Path:
        return self.path / PARTS / f"block-{number:06d}.parquet"

    def write_part(self, number: int, table: pa.Table) -> None:
        with whole_file(self.part(number)) as part:
            pq.write_table(table, part, compression="zstd", write_page_checksum=True)

    def missing(self, blocks: int) -> list[int]:
        """Blocks still to be scored."""
        return [number for number in range(blocks) if not self.part(number).is_file()]

    def joined(self, blocks: int) -> pa.Table:
        """All parts, blocks in their order."""
        return pa.concat_tables([self._read_part(number) for number in range(blocks)])

    def _read_part(self, number: int) -> pa.Table:
        path = self.part(number)
        try:
            return pq.read_table(path, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            path.unlink(missing_ok=True)
            raise InputError(
                f"{path} is damaged ({str(error).splitlines()[0]}) and was removed; the same command scores it again"
            ) from None

    def finish(self, table: pa.Table, about: Mapping[str, Any]) -> None:
        """The result is there whole; the parts are then of no use."""
        with whole_file(self.path / AUDIT) as part:
            pq.write_table(table, part, compression="zstd")
        write_json(self.path / RESULT, about)
        shutil.rmtree(self.path / PARTS, ignore_errors=True)


def different(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """In what two plans differ, in words."""
    was, here = before.get("settings", {}), now["settings"]
    told = [f"other {word}" for name, word in WORDS.items() if before.get(name) != now[name]]
    told += [f"{name} {was.get(name)} (now {here[name]})" for name in here if was.get(name) != here[name]]
    return ", ".join(told) or "another plan"


def read_audit(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """The table and audit.json of a finished audit."""
    folder = AuditFolder(path)
    result = folder.result
    if result is None:
        state = "is not finished; go on with gapo audit" if folder.plan else "holds no audit; give the folder of one"
        raise InputError(f"{path} {state}")
    try:
        return pq.read_table(path / AUDIT), result
    except (pa.ArrowException, OSError):
        raise InputError(
            f"{path / AUDIT} is not a whole Parquet file; remove {path / RESULT} and audit again"
        ) from None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    with whole_file(path) as part:
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
