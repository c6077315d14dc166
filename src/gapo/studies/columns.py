"""Columns that several studies show."""

from gapo.studies.exhibits import METHOD, PLAIN, POINTS, Column

NAME = Column("method", "method", METHOD)
LC = Column("lc_win_rate", "LC win rate")
WIN = Column("win_rate", "win rate")
ACCURACY = Column("accuracy", "reward accuracy")
SKILL = Column("skill", "skill kept")
DRIFT = Column("drift", "drift, nats a token", PLAIN)
LENGTH = Column("reply_tokens", "words a reply", PLAIN)


def in_points(column: Column, head: str | None = None) -> Column:
    """The same quantity as a difference."""
    return Column(column.key, head or column.head, POINTS)
